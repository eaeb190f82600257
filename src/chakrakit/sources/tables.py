"""Tables that a tracer wrote, as one SQLite file or as a folder of Parquet files with a table each.

Versions of a tool add tables and columns and leave some out, so that they are asked for by name: a table
that is not there has no rows, a column that is not there has no values.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.trace.files import GZIP, read_parquet, unpacked

SQLITE = b"SQLite format 3\0"
"""How an SQLite file begins."""
PARQUET = b"PAR1"
"""How a Parquet file begins."""
_MOST = 1 << 63
"""Numbers from -_MOST up to, not including, _MOST fit into 64 bits."""
_BETWEEN = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--[^\n]*\n)"
_VIRTUAL = re.compile(rf"{_BETWEEN}*create{_BETWEEN}+virtual\b", re.IGNORECASE)
"""How a table is declared whose rows a program gives; a column of another may be called `virtualAddress`."""
_MOST_ANSWERS = 2
"""Answers that are kept: reading one part of all processes uses one table or two."""
Answer = TypeVar("Answer")
Row = tuple[Any, ...]


class Tables(ABC):
    """Open tables. The last answers are kept, so that a table is read once where its processes take turns."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns = self._columns()
        """The columns of each table, by its name."""
        self._answers: dict[Row, Any] = {}

    @abstractmethod
    def _columns(self) -> dict[str, set[str]]: ...

    @abstractmethod
    def _fetch(self, table: str, columns: tuple[str, ...]) -> list[Row]:
        """Rows of a table that exists, with None for columns that it does not have."""

    def __contains__(self, table: str) -> bool:
        return table in self.columns

    def has(self, table: str, column: str) -> bool:
        """Whether a table has a column."""
        return column in self.columns.get(table, ())

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """Rows of a table; a column that it does not have is None, an absent table has no rows."""
        return self._answer(self._rows, table, tuple(columns))

    def numbers(self, table: str, columns: Sequence[str]) -> dict[str, I64]:
        """Numeric columns of a table; -1 for empty cells and absent columns."""
        return self._answer(self._numbers, table, tuple(columns))

    def texts(self, table: str, key: str, value: str) -> dict[int, str]:
        """The texts of a table by their numbers; empty cells are left out."""
        rows = self._rows(table, (key, value))
        return {self.whole(i, table): str(text) for i, text in rows if text is not None}

    def whole(self, value: Any, table: str, missing: int = -1) -> int:
        """A cell of a table as a whole number of 64 bits; `missing` where the cell is empty."""
        try:
            number = missing if value is None else int(value)
        except (TypeError, ValueError, OverflowError):
            number = _MOST
        if not -_MOST <= number < _MOST:
            raise FormatError(
                f"{str(value)[:40]!r} in {table} is not a whole number of 64 bits", path=self.path
            )
        return number

    def _answer(self, read: Callable[..., Answer], *question: Any) -> Answer:
        key = read.__name__, *question
        if key not in self._answers:
            self._answers[key] = read(*question)
            if len(self._answers) > _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
        answer: Answer = self._answers[key]
        return answer

    def _rows(self, table: str, columns: tuple[str, ...]) -> list[Row]:
        return self._fetch(table, columns) if table in self.columns else []

    def _numbers(self, table: str, columns: tuple[str, ...]) -> dict[str, I64]:
        rows = self._rows(table, columns)
        whole = np.array([[self.whole(v, table) for v in row] for row in rows], np.int64).reshape(
            len(rows), len(columns)
        )
        return {c: whole[:, i] for i, c in enumerate(columns)}


class SqliteTables(Tables):
    """The tables of an SQLite file; its views and virtual tables are left alone."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        super().__init__(path)

    def _columns(self) -> dict[str, set[str]]:
        rows = self._execute("select name, sql from sqlite_master where type = 'table'")
        names = [str(name) for name, sql in rows if not _VIRTUAL.match(str(sql))]
        return {
            name: {str(r[1]) for r in self._execute(f"pragma table_info({_quoted(name)})")}
            for name in names
        }

    def _fetch(self, table: str, columns: tuple[str, ...]) -> list[Row]:
        existing = self.columns[table]
        picked = ", ".join(_quoted(c) if c in existing else "null" for c in columns)
        return self._execute(f"select {picked} from {_quoted(table)}")

    def _execute(self, sql: str) -> list[Row]:
        try:
            return self._connection.execute(sql).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise FormatError(
                f"this SQLite file cannot be read ({error}); write it again with its tool",
                path=self.path,
            ) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class ParquetTables(Tables):
    """The Parquet files of a folder, each a table that has the file's name."""

    def __init__(self, folder: Path) -> None:
        self._files = {file.stem: file for file in sorted(folder.glob("*.parquet"))}
        self._tables = {name: self._read(file) for name, file in self._files.items()}
        super().__init__(str(folder))

    def _read(self, file: Path) -> Any:
        with file.open("rb") as stream:
            return read_parquet(stream, str(file), "Parquet table")

    def _columns(self) -> dict[str, set[str]]:
        return {name: set(table.column_names) for name, table in self._tables.items()}

    def _fetch(self, table: str, columns: tuple[str, ...]) -> list[Row]:
        stored = self._tables[table]
        none = [None] * stored.num_rows
        cells = [
            stored.column(c).to_pylist() if c in self.columns[table] else none for c in columns
        ]
        return list(zip(*cells, strict=True))


@contextmanager
def open_sqlite(path: Path) -> Iterator[SqliteTables]:
    """The tables of an SQLite file, plain or gzipped, opened for reading alone."""
    _check_finished(path)
    try:
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"cannot be opened: {error}", path=str(path)) from None
    try:
        connection.execute("pragma trusted_schema = off")
        yield SqliteTables(connection, str(path))
    finally:
        connection.close()


def _check_finished(path: Path) -> None:
    """Refuses a database of which rows still lie in its journal: reading it alone would leave them out."""
    journal = path.with_name(f"{path.name}-wal")
    if journal.exists() and journal.stat().st_size:
        raise FormatError(
            f"its writer ended before it was done, and rows are in {journal.name} beside it; take them in "
            f"with `sqlite3 {path.name} 'pragma wal_checkpoint(truncate)'`",
            path=str(path),
        )


def _connect(path: Path) -> sqlite3.Connection:
    with path.open("rb") as stream:
        compressed = stream.read(2) == GZIP
    if not compressed:
        where = path.absolute().as_uri() + "?mode=ro&immutable=1"
        return sqlite3.connect(where, uri=True)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(unpacked(path.read_bytes(), str(path)))
    return connection
