"""Pseudonyms: the same text gives the same digits under the same key, and nothing back without it.

They are digits alone, since letters can spell a word that was to be hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b

import pyarrow as pa

_GROUP_NUMBERS = 10**9
"""ASTRA-sim reads group names as 32-bit numbers."""


class Pseudonyms:
    """Names under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key).digest()
        self.of = cache(self._of)

    def _of(self, text: str) -> str:
        """The pseudonym of a text; an empty one says nothing and stays."""
        return f"{self._number(text):020d}" if text else ""

    def path(self, text: str) -> str:
        """A dotted path part by part, so that what was inside something still is."""
        return ".".join(self.of(part) for part in text.split("."))

    def groups(self, names: Iterable[str]) -> dict[str, str]:
        """Old name → new one, all different. Plain numbers, and "" for all ranks, stay."""
        names = set(names)
        found = {n: n for n in names if not n or (n.isascii() and n.isdecimal())}
        taken = {*found.values(), "0"}  # "0" means all ranks where nobody defines it
        for name in sorted(names - found.keys(), key=self._number):
            number = self._number(name) % _GROUP_NUMBERS
            while str(number) in taken:
                number = (number + 1) % _GROUP_NUMBERS
            found[name] = str(number)
            taken.add(str(number))
        return found

    def _number(self, text: str) -> int:
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big")


def renamed(values: pa.ChunkedArray, name_of: Callable[[str], str]) -> pa.Array:
    """A text column with each distinct text renamed once; the old texts are nowhere in the result."""
    array = values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column stays chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    new = [None if t is None else name_of(t) for t in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(new, pa.string()))
