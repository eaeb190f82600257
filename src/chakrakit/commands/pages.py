"""What `view` and `report` show that is no run: the page of a sweep, a study or a campaign."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_STUDY = re.compile(r"[AB]\d\d$", re.IGNORECASE)
"""The id of a study, as `chakra studies` lists it."""
_HISTORIES = 100
"""Histories of a campaign that is looked at: as many as `chakra campaign` runs by default."""


def page_at(path: str) -> str | None:
    """The page about what lies at a path, as HTML; None for anything that may be a run."""
    place = Path(path)
    if place.is_dir():
        return _sweep(place / "table.parquet", place.name) or _points(place)
    if place.suffix == ".parquet" and place.is_file():
        return _sweep(place, place.parent.absolute().name)
    if place.suffix in (".yaml", ".yml") and place.is_file():
        return _described(place)
    return _study(path.upper()) if _STUDY.match(path) and not place.exists() else None


def _sweep(path: Path, name: str) -> str | None:
    import pyarrow.parquet as pq

    if not path.is_file() or not _is_sweep(pq.read_schema(path)):
        return None
    from chakrakit.views import sweep_html

    return sweep_html(name, pq.read_table(path))


def _is_sweep(schema: pa.Schema) -> bool:
    return {"status", "error", "key"} <= set(schema.names)


def _points(folder: Path) -> str | None:
    """The study whose finished points a folder keeps, as `chakra study ID -o FOLDER` writes them."""
    pages = [file for file in folder.glob("*.md") if _STUDY.match(file.stem)]
    if len(pages) != 1 or not pages[0].with_suffix(".svg").is_file():
        return None
    from chakrakit.published import run_study
    from chakrakit.views import study_html

    return study_html(run_study(pages[0].stem, folder=folder))


def _study(name: str) -> str | None:
    from chakrakit.published import list_studies, recorded_study
    from chakrakit.views import study_html

    line = next((line for line in list_studies() if line.id == name), None)
    if line is None:
        return None
    if line.verdict == "no study":
        raise ConfigError(f"{name} {line.system}: not studied: {'; '.join(line.why)}")
    return study_html(recorded_study(name))


def _described(path: Path) -> str | None:
    """The page of a campaign's job; of a sweep that was run; else an error that says how to run it."""
    from chakrakit.configuration import read_document

    content = read_document(path, "a job or a study").content
    keys = set(content) if isinstance(content, dict) else set()
    if "axes" in keys:
        ran = path.with_suffix(".sweep")
        if (shown := _sweep(ran / "table.parquet", path.stem)) is not None:
            return shown
        raise ConfigError(
            f"{path}: a sweep that was not run yet; `chakra sweep {path}`, then `chakra view {ran}`"
        )
    if "cluster" in keys and keys & {"step_seconds", "workload", "run"}:
        from chakrakit.campaigns import campaign, read_job
        from chakrakit.views import campaign_html

        return campaign_html(campaign(read_job(path), histories=_HISTORIES))
    return None
