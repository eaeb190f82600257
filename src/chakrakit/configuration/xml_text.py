"""XML that others wrote: bounded in size and depth, without entities, so that it cannot grow when read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chakrakit.errors import FormatError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MOST_XML_BYTES = 64 << 20
"""The topology of the largest server takes half a megabyte, an algorithm of a thousand GPUs some ten."""
_DEEPEST = 200
"""Elements inside each other; the topology of a node has about ten levels. Assumed."""
_DECLARED = re.compile(rb"<!ENTITY|<!DOCTYPE[^>\[]*\[", re.IGNORECASE)


def read_xml(data: bytes, where: str) -> Element:
    """The root element of a document; a FormatError says what is wrong with it."""
    from xml.etree.ElementTree import ParseError, fromstring

    if len(data) > MOST_XML_BYTES:
        raise FormatError(f"{len(data):,} bytes; {MOST_XML_BYTES:,} is the most", path=where)
    if _DECLARED.search(data):
        raise FormatError("declares entities of its own, which are not read", path=where)
    try:
        root = fromstring(data)
    except (ParseError, ValueError, LookupError) as error:
        raise FormatError(f"not XML: {error}", path=where) from None
    level, depth = [root], 0
    while level:
        level, depth = [inner for element in level for inner in element], depth + 1
        if depth > _DEEPEST:
            raise FormatError(f"nested deeper than {_DEEPEST} elements", path=where)
    return root
