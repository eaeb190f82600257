"""How slices are coloured: by kind, by class of work, by name, or by the difference of two runs."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I8
from chakrakit.insight.rank import RankView
from chakrakit.passes.base import classes_of
from chakrakit.views.app import row_parts
from chakrakit.views.colors import color

CLASSES = (
    "gemm",
    "attention",
    "conv",
    "normalization",
    "elementwise",
    "reduction",
    "lookup",
    "optimizer",
    "communication",
    "copy",
    "host",
    "other",
)
"""Classes of work that have a colour of their own, in the order of the legend; all others are `other`."""
_CLASS_COLORS = {
    "gemm": "#0072b2",
    "attention": "#56b4e9",
    "conv": "#1b4f72",
    "normalization": "#8e6bbf",
    "elementwise": "#44aa99",
    "reduction": "#117733",
    "lookup": "#ddcc77",
    "optimizer": "#aa4499",
}
_NAME_COLORS = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9",
    "#8e6bbf", "#117733", "#ddcc77", "#44aa99", "#aa4499", "#8a8f98",
)  # fmt: skip
"""Colours of names, in turn; a name has the same one wherever it occurs."""


def legends() -> dict[str, list[dict[str, str]]]:
    """For each way to colour slices, what each code means; names have no list of their own."""
    return {
        "kind": row_parts.legend(),
        "class": [{"name": n, "color": _CLASS_COLORS.get(n, color(n))} for n in CLASSES],
        "name": [{"name": "", "color": each} for each in _NAME_COLORS],
    }


def codes_by(paint: str, view: RankView) -> I8 | None:
    """The code of each row under a way to colour slices; None for the rows' own kinds."""
    if paint == "class":
        return _class_codes(view)
    return _name_codes(view) if paint == "name" else None


def _class_codes(view: RankView) -> I8:
    code = {name: number for number, name in enumerate(CLASSES)}
    texts, number = np.unique(classes_of(view.trace).astype(str), return_inverse=True)
    codes: I8 = np.array([code.get(str(t), len(CLASSES) - 1) for t in texts], np.int8)[number]
    return codes


def _name_codes(view: RankView) -> I8:
    """Codes by a checksum of the name, so that other ranks and runs give it the same colour."""
    from zlib import crc32

    codes, texts = view.names
    of_text = [crc32(text.encode()) % len(_NAME_COLORS) for text in texts]
    coded: I8 = np.array(of_text or [0], np.int8)[codes]
    return coded
