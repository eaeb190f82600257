"""What passes ask about nodes: attributes, class of work, own times."""

from __future__ import annotations

from chakrakit.passes.nodes.attributes import Texts, coded, names_of, texts_of
from chakrakit.passes.nodes.classes import COMMUNICATION, classes_of, is_compute, same_name
from chakrakit.passes.nodes.selection import matching, of_classes
from chakrakit.passes.nodes.times import I64, settled, with_own_ns

__all__ = [
    "COMMUNICATION",
    "I64",
    "Texts",
    "classes_of",
    "coded",
    "is_compute",
    "matching",
    "names_of",
    "of_classes",
    "same_name",
    "settled",
    "texts_of",
    "with_own_ns",
]
