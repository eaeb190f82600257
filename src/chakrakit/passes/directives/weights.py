"""What a global trace says about its weights: its optimizer nodes list them, block by block."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chakrakit.errors import ConfigError
from chakrakit.passes.directives.draft import Draft, DraftRow, is_backward

_COUNTS = re.compile(r"\d{1,15}(,\d{1,15})*")
HOW_TO = "make it with `chakra generate --data zero1` and no other parallelism"


@dataclass(eq=False)
class BlockWeights:
    """The weights of one block: their elements in order, and the node that updates them."""

    update: DraftRow
    elements: list[int]
    gradients: list[DraftRow]
    """The rows that complete their gradients, in the order in which they run."""

    def gradient(self, number: int) -> list[DraftRow]:
        """The row that completes the gradient of one weight: backward has the last weight first.

        Where weights share rows, as a matrix and its bias do, all of them.
        """
        if len(self.gradients) != len(self.elements):
            return self.gradients
        return [self.gradients[-1 - number]]

    @property
    def total(self) -> int:
        """Elements of all of them."""
        return sum(self.elements)


def blocks_of(draft: Draft) -> list[BlockWeights]:
    """The blocks in the order of the model; a ConfigError where the trace does not say them."""
    blocks = []
    place = {row: number for number, row in enumerate(draft.rows)}
    for row in draft.rows:
        if row.get("op_type") != "optimizer":
            continue
        role, _, counts = (row.get("shards") or "").partition(" ")
        if role != "dp" or not _COUNTS.fullmatch(counts):
            raise ConfigError(
                f"node {row['name']!r} does not list its weights for one group; {HOW_TO}"
            )
        made = [s for s in draft.sources(row) if s.get("micro_batch") is not None]
        sources = sorted(made, key=place.__getitem__)
        blocks.append(BlockWeights(row, [int(c) for c in counts.split(",")], sources))
    if not blocks:
        raise ConfigError(
            f"the trace has no optimizer nodes, whose weights could be shared; {HOW_TO}"
        )
    return blocks


def stretches(draft: Draft, blocks: int) -> dict[tuple[int, bool, int], list[DraftRow]]:
    """Rows by micro-batch, way back or forth, and block; blocks are numbered as the model has them.

    The first and the last block, an embedding and a head, have no number of a layer.
    """
    found: dict[tuple[int, bool, int], list[DraftRow]] = {}
    layers = sorted({r["layer"] for r in draft.rows if r.get("layer") is not None})
    if len(layers) > blocks - 2:
        raise ConfigError(
            f"the trace has {len(layers)} layers, and its optimizer nodes list {blocks - 2}; {HOW_TO}"
        )
    place = {layer: i + 1 for i, layer in enumerate(layers)}
    seen: set[tuple[int, bool]] = set()
    for row in draft.rows:
        if row.get("micro_batch") is None:
            continue
        way = (int(row["micro_batch"]), is_backward(row))
        if row.get("layer") is not None:
            seen.add(way)
            block = place[row["layer"]]
        else:
            block = blocks - 1 if (way in seen) != way[1] else 0
        found.setdefault((*way, block), []).append(row)
    return found
