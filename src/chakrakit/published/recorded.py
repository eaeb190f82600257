"""Recorded results: the table of every study, and a list of all of them that needs no study to be loaded.

A table has one row per measurement; the list has one line per study, made from the tables. Both are Parquet
files that come with the package. `record` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.errors import ConfigError
from chakrakit.published.unstudied import UNSTUDIED
from chakrakit.results import Result

TABLES = Path(__file__).parent / "tables"
LIST = "list.parquet"
COMMIT = b"commit"


class StudyLine(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A system in one line: what was claimed, and what became of it."""

    id: str
    system: str
    family: str
    claim: str
    verdict: str
    """As computed, or `no study` for a system that cannot be studied."""
    comparator: str = ""
    figures: dict[str, list[float | None]] = {}
    """The least and the most of each figure: of the gain, of the gain where it should be gone, and of what
    claims are about; None for what has no end."""
    commit: str = ""
    strength: str = ""
    why: list[str] = []


StudyLines = list[StudyLine]
"""What `chakra studies --json` prints."""


def list_studies(family: str | None = None) -> list[StudyLine]:
    """All studies as they were recorded, then the systems that cannot be studied; nothing is run."""
    studied = [_line(row) for row in _read_list()]
    unstudied = [
        StudyLine(id=i, system=s, family="none", claim=c, verdict="no study", why=[why])
        for i, s, c, why in UNSTUDIED
    ]
    lines = studied + unstudied
    families = sorted({line.family for line in lines})
    if family is not None and family not in families:
        raise ConfigError(f"there is no family {family!r}; there are {', '.join(families)}")
    return [line for line in lines if family in (None, line.family)]


def _read_list() -> list[dict[str, Any]]:
    path = TABLES / LIST
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()  # loads no datasets
    return rows


def _line(row: dict[str, Any]) -> StudyLine:
    return msgspec.json.decode(row["line"], type=StudyLine)


def write_list(lines: list[StudyLine], folder: Path = TABLES) -> None:
    """The list, one row per study; figures inside a line are JSON."""
    rows = [{"id": line.id, "line": msgspec.json.encode(line).decode()} for line in lines]
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.string()), ("line", pa.string())]))
    pq.write_table(table, folder / LIST, compression="zstd")


def write_rows(rows: list[dict[str, Any]], commit: str, path: Path) -> None:
    """The measurements of a study, and the commit they were made with."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    table = pa.table(columns).replace_schema_metadata({COMMIT: commit.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", use_dictionary=True, write_statistics=False)


def read_rows(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The measurements of a study, and their commit."""
    if not path.exists():
        raise ConfigError(
            f"{path.stem}: this study has no recorded results; run it with `chakra study`"
        )
    table = pq.ParquetFile(path).read()
    metadata = table.schema.metadata or {}
    return table.to_pylist(), metadata.get(COMMIT, b"").decode()
