"""Documents cut into blocks of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Blocks:
    """Stretches of documents, document after document: where each begins in its document, and its tokens.

    A query meets the keys of its document, `causal` ones those up to itself.
    """

    document: I64
    start: I64
    size: I64
    causal: bool = True

    def __len__(self) -> int:
        return len(self.size)

    @property
    def pairs(self) -> F64:
        """Query–key pairs of each block as queries: all keys before it, and half a square of its own.

        Without a causal mask, all keys of its document.
        """
        met = self.start + self.size / 2 if self.causal else self.documents[self.document]
        pairs: F64 = (self.size * met).astype(np.float64)
        return pairs

    @property
    def documents(self) -> I64:
        """Tokens of each document."""
        return np.bincount(self.document, self.size).astype(np.int64)


def cut(documents: Sequence[int], block: int) -> Blocks:
    """Blocks of `block` tokens; the last of a document has what is left."""
    lengths = np.asarray(documents, np.int64)
    if block < 1 or not len(lengths) or lengths.min() < 1:
        raise ConfigError("documents and blocks have at least one token")
    counts = -(-lengths // block)
    document = np.repeat(np.arange(len(lengths)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    start = (np.arange(len(document)) - first) * block
    return Blocks(document, start, np.minimum(block, lengths[document] - start))


def cut_evenly(documents: Sequence[int], parts: int) -> Blocks:
    """Every document in `parts` equal pieces, as many as it has tokens for; the first ones are larger."""
    document, start, size = [], [], []
    for number, length in enumerate(documents):
        pieces = min(parts, length)
        sizes = length // pieces + (np.arange(pieces) < length % pieces)
        document.append(np.full(pieces, number))
        start.append(np.cumsum(sizes) - sizes)
        size.append(sizes)
    joined = [np.concatenate(part).astype(np.int64) for part in (document, start, size)]
    return Blocks(joined[0], joined[1], joined[2])
