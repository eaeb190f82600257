"""Published systems as studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chakrakit.parallel import Progress, Workers, quiet
from chakrakit.published import StudyLine, list_studies

if TYPE_CHECKING:
    from chakrakit.api.inputs import Path_
    from chakrakit.published import StudyResult


def studies(family: str | None = None) -> list[StudyLine]:
    """List the studies of published systems as they were recorded; nothing is run.

    Parameters
    ----------
    family
        Only this family, such as `communication` or `serving`.

    Returns
    -------
    A line for every study, with its verdict, then the systems that cannot be studied and why.

    Examples
    --------
    >>> [line.verdict for line in ck.studies("communication") if line.id == "B02"]
    ['holds']

    """
    return list_studies(family)


def study(
    id: str,
    *,
    quick: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    output: Path_ | None = None,
    progress: Progress = quiet,
) -> StudyResult:
    """Run a study of a published system against comparators that are tuned as carefully.

    Parameters
    ----------
    id
        Of the study, as `ck.studies()` lists them.
    quick
        Fewer cases and seeds, in seconds.
    engine, jobs
        Where points are measured (`local`, `ray`, `dask`), and how many at once; by default here, one
        after another.
    output
        A folder that keeps finished points, so that a run which was stopped goes on, and gets the study's
        table, page and chart.
    progress
        Called with the number of points finished, of how many.

    Examples
    --------
    >>> ck.study("B02", quick=True).verdict  # doctest: +SKIP
    'holds'

    """
    from chakrakit.published import run_study
    from chakrakit.views.pages import write_study

    folder = None if output is None else Path(output)
    workers = Workers(engine or "local", jobs) if engine or jobs else None
    result = run_study(id, quick=quick, folder=folder, workers=workers, progress=progress)
    if folder is not None:
        write_study(result, folder)
    return result
