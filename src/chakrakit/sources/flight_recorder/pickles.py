"""Pickles read as data: dictionaries, lists, texts and numbers, and never anything that runs code."""

from __future__ import annotations

from collections.abc import Sequence

import chakrakit.core as core
from chakrakit.errors import FormatError

MAGIC = b"\x80"
"""First byte of every pickle since protocol 2."""


def plain_json(data: bytes, skip: Sequence[str] = (), path: str = "") -> bytes:
    """A pickle's value as JSON; keys in `skip` are left out.

    Python's own unpickler is not involved: opcodes that name a class, call a function or refer to
    an object outside the file end in a FormatError before anything is made of them.
    """
    try:
        return core.pickle_to_json(data, list(skip))
    except core.FormatError as error:
        message, offset = error.args
        raise FormatError(
            f"not a pickle of plain data: {message}; only dictionaries, lists, texts and numbers "
            "are read, as PyTorch's recorders write them",
            path=path or None,
            offset=offset,
        ) from None
