"""Tables of an Nsight Systems export, column by column; what an export does not have reads as empty."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import FormatError
from chakrakit.trace.files import unpacked

_MAGIC = b"SQLite format 3\0"
_MARK = "META_DATA_EXPORT"
_MOST = 1 << 63
Answer = TypeVar("Answer")


def is_export(head: bytes) -> bool:
    """Whether a file's first bytes are those of an SQLite file, the form in which reports are exported."""
    return head.startswith(_MAGIC)


_KEPT = 2
"""Answers that are kept: what a process is asked about at a time is in one table or two."""


class Tables:
    """An open export. Tables are lazy and columns come and go with the version: ask by name.

    The last answers are kept, so that a table is read once where its processes are read in turn.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self.path = connection, path
        self._kept: dict[tuple[Any, ...], Any] = {}
        rows = self._fetch(
            "select name, sql from sqlite_master where type = 'table' and sql not like '%virtual%'"
        )
        self._columns: dict[str, set[str]] = {str(name): set() for name, _ in rows}
        for name in self._columns:
            quoted = name.replace('"', '""')
            self._columns[name] = {str(r[1]) for r in self._fetch(f'pragma table_info("{quoted}")')}

    def __contains__(self, table: str) -> bool:
        return table in self._columns

    def _fetch(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise FormatError(
                f"this SQLite file cannot be read ({error}); export the report again with "
                "`nsys export --type sqlite`",
                path=self.path,
            ) from None

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts by the numbers that other tables use for them."""
        rows = self._rows("StringIds", ("id", "value"), "")
        return {self.whole(i, "StringIds"): str(v) for i, v in rows}

    def rows(self, table: str, columns: Sequence[str], where: str = "") -> list[tuple[Any, ...]]:
        """Rows of a table; a column that it does not have is None, an absent table has no rows."""
        return self._answer(self._rows, table, tuple(columns), where)

    def numbers(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, I64]:
        """Numeric columns; -1 where there is none."""
        return self._answer(self._numbers, table, tuple(columns), where)

    def _answer(self, read: Callable[..., Answer], *question: Any) -> Answer:
        key = read.__name__, *question
        if key not in self._kept:
            self._kept[key] = read(*question)
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        answer: Answer = self._kept[key]
        return answer

    def _rows(self, table: str, columns: tuple[str, ...], where: str) -> list[tuple[Any, ...]]:
        if table not in self._columns:
            return []
        known = self._columns[table]
        picked = ", ".join(f'"{c}"' if c in known else "null" for c in columns)
        return self._fetch(f'select {picked} from "{table}" {where}')

    def _numbers(self, table: str, columns: tuple[str, ...], where: str) -> dict[str, I64]:
        rows = self._rows(table, columns, where)
        whole = np.array([[self.whole(v, table) for v in row] for row in rows], np.int64).reshape(
            len(rows), len(columns)
        )
        return {c: whole[:, i] for i, c in enumerate(columns)}

    def whole(self, value: Any, table: str, missing: int = -1) -> int:
        """A cell of a table as a whole number of 64 bits; `missing` where the cell is empty."""
        try:
            found = missing if value is None else int(value)
        except (TypeError, ValueError, OverflowError):
            found = _MOST
        if not -_MOST <= found < _MOST:
            raise FormatError(f"{str(value)[:40]!r} in {table} is no number", path=self.path)
        return found

    def has(self, table: str, column: str) -> bool:
        """Whether a table has a column."""
        return column in self._columns.get(table, ())


@contextmanager
def open_tables(path: Path) -> Iterator[Tables]:
    """The tables of an export, plain or gzipped, opened for reading alone."""
    try:
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"cannot be opened: {error}", path=str(path)) from None
    try:
        connection.execute("pragma trusted_schema = off")
        tables = Tables(connection, str(path))
        if _MARK not in tables and "StringIds" not in tables:
            raise FormatError(
                "this SQLite file is no export of Nsight Systems: it has neither META_DATA_EXPORT nor "
                "StringIds",
                path=str(path),
            )
        yield tables
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    with path.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    if not compressed:
        where = path.absolute().as_uri() + "?mode=ro&immutable=1"
        return sqlite3.connect(where, uri=True)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(unpacked(path.read_bytes(), str(path)))
    return connection
