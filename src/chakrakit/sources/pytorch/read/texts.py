"""Strings that columns refer to by number, decoded when first used; and checks of values in recordings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit import core
from chakrakit.arrays import I32, I64, U8, Mask
from chakrakit.errors import FormatError
from chakrakit.operators import LARGEST


def columns_of(
    read: Callable[[bytes], dict[str, Any]], data: bytes, path: str, writer: str
) -> dict[str, Any]:
    """The columns a reader of the core gives for a file's bytes; errors name what writes such files."""
    try:
        return read(data)
    except core.FormatError as error:
        message, offset = error.args
        problem = f"{message}; give the file written by {writer}"
        raise FormatError(problem, path=path or None, offset=offset) from None


Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
"""A field of a recording that is a number up to `LARGEST`, by which msgspec refuses others."""


def whole(value: object, most: int = LARGEST) -> int | None:
    """A number between -`most` and `most`, also where it is written as text; None for all else."""
    if isinstance(value, str | bytes):
        try:
            value = int(value)
        except ValueError:
            return None
    fits = isinstance(value, int) and not isinstance(value, bool) and -most <= value <= most
    return value if fits and isinstance(value, int) else None


class TextPool:
    """Distinct strings, laid end to end; string 0 is the empty one.

    A column of text is an array of numbers into one `Texts`. Questions about text are asked of the
    distinct strings and answered for whole columns by indexing.
    """

    def __init__(self, data: U8, offsets: I64) -> None:
        self._data = data
        self._offsets = offsets
        self._all: list[str] | None = None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self.strings[number]

    @property
    def strings(self) -> list[str]:
        """Every distinct string; bytes that are not UTF-8 are replaced."""
        if self._all is None:
            whole = self._data.tobytes()
            ends = self._offsets.tolist()
            self._all = [whole[a:b].decode("utf-8", "replace") for a, b in itertools.pairwise(ends)]
        return self._all

    def number(self, text: str) -> int:
        """The number of this string, or -1 when nothing in the file says it."""
        try:
            return self.strings.index(text)
        except ValueError:
            return -1

    def where(self, test: Callable[[str], Any]) -> Mask:
        """One bool per distinct string."""
        return np.fromiter((bool(test(s)) for s in self.strings), np.bool_, len(self))

    def matching(self, pattern: str) -> Mask:
        """Which distinct strings the regular expression is found in."""
        return self.where(re.compile(pattern).search)

    def arrow(self) -> pa.Array:
        """The distinct strings as an Arrow array."""
        return pa.array(self.strings, pa.string())

    def column(self, numbers: I32, valid: Mask | None = None) -> pa.Array:
        """A dictionary column of these numbers; rows that are not valid are null."""
        index = pa.array(numbers, mask=None if valid is None else ~valid)
        return pa.DictionaryArray.from_arrays(index, self.arrow())


def plain_strings(data: U8, offsets: I64) -> pa.Array:
    """Every row its own text, as an Arrow array over the same bytes; what is not UTF-8 is replaced."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    rows = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers, 0)
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        raw = rows.view(pa.large_binary()).to_pylist()
        return pa.array([text.decode("utf-8", "replace") for text in raw], pa.large_string())
    return rows
