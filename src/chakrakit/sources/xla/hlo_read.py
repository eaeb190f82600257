"""HLO files, as text or as protobuf, recognised by their content."""

from __future__ import annotations

import re

from chakrakit.errors import FormatError
from chakrakit.operators import LARGEST
from chakrakit.sources.xla.hlo import Module, Shape
from chakrakit.sources.xla.hlo_proto import read_proto
from chakrakit.sources.xla.hlo_replicas import MOST_DEVICES
from chakrakit.sources.xla.hlo_text import read_text

_TEXT = re.compile(rb"^HloModule\s", re.M)


def is_hlo(head: bytes) -> bool:
    """Whether the first bytes of a file are HLO text, or a protobuf that begins like a module."""
    if _TEXT.search(head[:4096]):
        return True
    return _begins_like_module(head) or (head[:1] == b"\x0a" and _begins_like_module(_inner(head)))


def _inner(head: bytes) -> bytes:
    """The bytes inside the first length-delimited field."""
    at = 1
    while at < len(head) and head[at] >= 0x80:
        at += 1
    return head[at + 1 :]


def _begins_like_module(head: bytes) -> bool:
    """Whether the bytes begin with field 1 and field 2, both printable: the names of module and entry."""
    at = 0
    for key in (0x0A, 0x12):
        if at + 1 >= len(head) or head[at] != key or not 0 < head[at + 1] < 0x80:
            return False
        text = head[at + 2 : at + 2 + head[at + 1]]
        if not text.isascii() or not text.decode("ascii", "replace").isprintable():
            return False
        at += 2 + head[at + 1]
    return True


def _proto(data: bytes) -> Module:
    if data[:1] not in (b"\x0a", b"\x12", b"\x1a"):  # fields 1 to 3 of either message
        raise FormatError("not an HLO module, neither as text nor as protobuf")
    return read_proto(data)


def parse_hlo(data: bytes, path: str = "") -> Module:
    """The module in some bytes."""
    try:
        text = _TEXT.search(data[:65536]) is not None
        module = read_text(data.decode("utf-8", "replace")) if text else _proto(data)
        _check(module)
    except FormatError as error:
        raise FormatError(error.problem, path=path or None, offset=error.offset) from None
    except RecursionError:
        raise FormatError("shapes are nested too deep", path=path or None) from None
    return module


def _check(module: Module) -> None:
    """Refuse sizes that would overflow later, and so many devices that they would fill memory."""
    if not 0 < module.devices <= MOST_DEVICES:
        raise FormatError(f"{module.devices:,} devices; at most {MOST_DEVICES:,} are possible")
    for computation in module.computations.values():
        for i in computation.instructions:
            numbers = (i.shape.bytes, i.shape.elements, i.channel, i.parameter, i.index)
            if max(map(abs, numbers)) > LARGEST or _is_negative(i.shape):
                raise FormatError(
                    f"{i.name}: a size or number that is negative or too large ({i.shape!s:.60})"
                )


def _is_negative(shape: Shape) -> bool:
    return min(shape.dims, default=0) < 0 or any(map(_is_negative, shape.parts))
