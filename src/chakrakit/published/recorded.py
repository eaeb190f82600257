"""Recorded results: the table of every study, from which all are listed without a study being loaded.

A table has one row per measurement, and says of itself what the study's line in the list is. Tables are
Parquet files that come with the package; `record` writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.errors import ConfigError
from chakrakit.published.unstudied import UNSTUDIED
from chakrakit.results import Result

TABLES = Path(__file__).parent / "tables"
COMMIT, QUICK, LINE = b"commit", b"quick_s", b"line"
"""What a table says of itself: the commit it was made with, CPU seconds of a quick run then, and its line."""
PRECISION = 1e-6
"""Figures keep seven digits: half the bytes, and far more digits than a simulation has."""


class ClaimLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim of a system: the figure that was published, and the least and the most that came out."""

    text: str
    kind: str
    figure: str
    claimed: list[float | None]
    measured: list[float | None] = []
    """Empty where nothing was measured of it; None for what has no end."""
    reached: bool | None = None
    """None for a claim that cannot be judged."""


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
    claims: list[ClaimLine] = []


StudyLines = list[StudyLine]
"""What `chakra studies --json` prints."""


def list_studies(family: str | None = None) -> list[StudyLine]:
    """All studies as they were recorded, then the systems that cannot be studied; nothing is run."""
    studied = [line for line in map(_line, sorted(TABLES.glob("*.parquet"))) if line]
    unstudied = [
        StudyLine(id=i, system=s, family="none", claim=c, verdict="no study", why=[why])
        for i, s, c, why in UNSTUDIED
    ]
    lines = studied + unstudied
    families = sorted({line.family for line in lines})
    if family is not None and family not in families:
        raise ConfigError(f"there is no family {family!r}; there are {', '.join(families)}")
    return [line for line in lines if family in (None, line.family)]


def _line(path: Path) -> StudyLine | None:
    """What a table says of itself; None for one of which the line was not yet written."""
    line = (pq.read_metadata(path).metadata or {}).get(LINE)
    return None if line is None else msgspec.json.decode(line, type=StudyLine)


def write_line(line: StudyLine, folder: Path = TABLES) -> None:
    """Puts a study's line into its table, unless it is there."""
    path = folder / f"{line.id}.parquet"
    if line != _line(path):
        table = pq.ParquetFile(path).read()
        about = {**(table.schema.metadata or {}), LINE: msgspec.json.encode(line)}
        _write(table.replace_schema_metadata(about), path)


def write_rows(
    rows: list[dict[str, Any]], commit: str, path: Path, quick_s: float | None = None
) -> None:
    """The measurements of a study, and the commit they were made with."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    about = {COMMIT: commit.encode()} | ({QUICK: b"%.2f" % quick_s} if quick_s is not None else {})
    _write(pa.table(columns).replace_schema_metadata(about), path)


def _write(table: pa.Table, path: Path) -> None:
    """As small as Parquet gets: the bytes of numbers by their place, everything else by a dictionary."""
    from chakrakit.trace.files import replacing  # what only lists studies does without it

    fields = table.schema
    figures = [f.name for f in fields if pa.types.is_floating(f.type)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        writer = pq.ParquetWriter(
            temporary,
            fields.remove_metadata(),
            compression="zstd",
            compression_level=19,
            use_dictionary=[f.name for f in fields if f.name not in figures],
            column_encoding=dict.fromkeys(figures, "BYTE_STREAM_SPLIT"),
            write_statistics=False,
            store_schema=False,
        )
        with writer:
            writer.write_table(table)
            writer.add_key_value_metadata(fields.metadata)


def _column(values: list[Any]) -> pa.Array:
    """Numbers with as many digits as are worth keeping."""
    array = pa.array(values)
    if not pa.types.is_floating(array.type):
        return array
    wide = array.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    same = np.isclose(narrow, wide, rtol=PRECISION, atol=0.0, equal_nan=True).all()
    return array.cast(pa.float32(), safe=False) if same else array


def quick_seconds(path: Path) -> float:
    """CPU seconds that a quick run took when a study was recorded; NaN where that is not known."""
    return float((pq.read_schema(path).metadata or {}).get(QUICK, b"nan"))


def read_rows(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The measurements of a study, and their commit."""
    if not path.exists():
        raise ConfigError(
            f"{path.stem}: this study has no recorded results; run it with `chakra study`"
        )
    table = pq.ParquetFile(path).read()
    metadata = table.schema.metadata or {}
    return table.to_pylist(), metadata.get(COMMIT, b"").decode()
