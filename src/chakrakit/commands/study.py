"""`study`: a published idea against comparators that are tuned as carefully."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import EngineOption, Path_, ProgressOption, progress_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table, progress

if TYPE_CHECKING:
    from chakrakit.published import StudyResult


class StudyOptions(EngineOption, ProgressOption, total=False):
    """Options of `study`."""

    quick: Annotated[bool, Option("Fewer cases and seeds, in seconds.", False)]
    output: Annotated[
        Path_ | None,
        Option(
            "Keep finished points, and write table, page and chart.",
            None,
            flags="-o --output",
            metavar="DIR",
        ),
    ]
    jobs: Annotated[
        int | None,
        Option(
            "Points at once; by default one per core with --engine, else one.",
            None,
            metavar="N",
            least=1,
        ),
    ]


@public(StudyOptions)
def study(
    id: Annotated[str, Positional("Of the study, as `chakra studies` lists them.", metavar="ID")],
    **options: Unpack[StudyOptions],
) -> StudyResult:
    """Run a study of a published system against comparators that are tuned as carefully.

    Examples
    --------
    >>> ck.study("B02", quick=True).verdict  # doctest: +SKIP
    'holds'

    """
    from chakrakit.parallel import Workers
    from chakrakit.published import run_study
    from chakrakit.views import write_study

    engine, jobs, output = options["engine"], options["jobs"], options["output"]
    folder = None if output is None else Path(output)
    workers = Workers(engine or "local", jobs) if engine or jobs else None
    quick, shown = options["quick"], progress_of(options)
    result = run_study(id, quick=quick, folder=folder, workers=workers, progress=shown)
    if folder is not None:
        write_study(result, folder)
    return result


@command_of(study)
def command(id: str, *, json: Json = False, **options: Any) -> None:
    """Run the study ID of a published system; `chakra studies` lists them.

    Every side chooses its settings on some seeds and is judged on others; the verdict is computed. With
    -o DIR finished points are kept: the same command goes on where it was stopped.

    \b
    chakra study B02 --quick
    chakra study B02 -o B02.points
    """
    with progress("points") as show:
        result = study(id, progress=show, **options)
    if json:
        return print_json(result)
    return _print(result)


def _print(result: StudyResult) -> None:
    out = console()
    out.print(f"{result.id} {result.system}: {result.verdict}")
    for reason in result.why:
        out.print(f"- {reason}")
    fields = list(dict.fromkeys(name for c in result.cases for name in c.case))
    rows = [
        (
            *(str(c.case.get(f, "")) for f in fields),
            c.against,
            f"{c.gain:.3f}",
            f"{c.low:.3f} to {c.high:.3f}",
            ", ".join([*(["gone"] if c.gone else []), *(f"{s} collapsed" for s in c.collapsed)]),
        )
        for c in result.cases
    ]
    print_table((*fields, "against", "gain", "95 %", ""), rows)
    for p in result.predictions:
        out.print(f"{p.outcome}: {p.text}")
    for a in result.ablations:
        out.print(f"without {a.without}: {a.verdict}, gain {a.least:.3g} to {a.most:.3g}")
