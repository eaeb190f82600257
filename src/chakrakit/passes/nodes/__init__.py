"""What passes ask about nodes: attributes, class of work, own times."""

from __future__ import annotations

from chakrakit.passes.nodes.attributes import coded, names_of, texts_of
from chakrakit.passes.nodes.classes import classes_of, is_compute, same_name
from chakrakit.passes.nodes.selection import Selection, of_classes
from chakrakit.passes.nodes.times import with_own_ns, with_run_times

__all__ = [
    "Selection",
    "classes_of",
    "coded",
    "is_compute",
    "names_of",
    "of_classes",
    "same_name",
    "texts_of",
    "with_own_ns",
    "with_run_times",
]
