"""Serving engines' step annotations: what was in the batch of a step."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUMS = r"sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)"
_FULL = re.compile(rf"^execute_(\d+)_context_(\d+)\({_SUMS}\)_generation_(\d+)\({_SUMS}\)$")
_OLD = re.compile(r"^execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)$")
_SGLANG = re.compile(r"^step\[(DECODE|EXTEND|MIXED|IDLE) bs=(\d+)(?: toks=(\d+))?\]$")


@dataclass(frozen=True)
class Share:
    """Requests of one phase in a step: their number, query tokens, keys, Σq² and Σq·k; -1 unknown."""

    requests: int = 0
    queries: int = 0
    keys: int = -1
    squared: int = -1
    products: int = -1


@dataclass(frozen=True)
class Batch:
    """A step's batch: tokens in all, requests in prefill (`context`) and in decode (`generation`)."""

    tokens: int
    context: Share
    generation: Share

    def columns(self) -> dict[str, int]:
        """As attributes of the node that stands for the step; unknown sums are left out."""
        out = {"batch_tokens": self.tokens}
        for name, share in (("context", self.context), ("generation", self.generation)):
            facts = {
                "requests": share.requests,
                "q": share.queries,
                "k": share.keys,
                "qq": share.squared,
                "qk": share.products,
            }
            out |= {f"{name}_{key}": value for key, value in facts.items() if value >= 0}
        return out


def read_batch(name: str) -> Batch | None:
    """The batch an annotation's name tells of; None for any other name."""
    match = _FULL.match(name)
    if match:
        n = [int(x) for x in match.groups()]
        return Batch(n[0], Share(*n[1:6]), Share(*n[6:11]))
    match = _OLD.match(name)
    if match:
        a, b, c, d = (int(x) for x in match.groups())
        return Batch(b + d, Share(a, b), Share(c, d))
    match = _SGLANG.match(name)
    if match is None:
        return None
    size, tokens = int(match[2]), int(match[3] or match[2])
    if match[1] == "EXTEND":
        return Batch(tokens, Share(size, tokens), Share())
    return Batch(tokens, Share(), Share(size, tokens))


def batch_of(name: str) -> int | None:
    """How many tokens a step's batch has, which engines pad to a captured size; None for other names."""
    batch = read_batch(name)
    return None if batch is None else batch.tokens
