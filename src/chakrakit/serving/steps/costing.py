"""The time of a step as terms that the engine adds up: layers, work shared by ranks, head, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.workloads.layers import Reach

Seconds = Callable[[int], float]


@dataclass(frozen=True)
class StepCost:
    """The terms of a step's time in seconds, as functions of tokens.

    `dense` is a function of the tokens of a step, `head` of its sampled tokens, `shared` of the tokens of
    all ranks that step together, where there are several. `attention` is a roofline or a grid of the core.
    `padded`, if set, is the time of a whole step by its padded tokens and padded context, and replaces the
    other terms.
    """

    dense: Seconds
    head: Seconds
    attention: core.ServingRoofline | core.ServingGrid
    shared: Seconds | None = None
    padded: Callable[[int, int], float] | None = None
    service: Callable[[Mapping[int, int]], float] | None = None
    """The time of a step of any service, by items of each kind; replaces the other terms."""
    shared_by_fewer: Callable[[int, int], float] | None = None
    """`shared` by tokens and ranks, where some of the ranks are gone."""
    about: str = ""
    """Where the times come from, in words."""
    notes: tuple[str, ...] = field(default=())


def picoseconds(seconds: Seconds) -> Callable[[int], int]:
    """The function in whole picoseconds, as the core needs it."""

    def counted(n: int) -> int:
        step_seconds = seconds(n)
        if not 0 <= step_seconds < _LONGEST_S:
            raise ConfigError(f"a step of {n:,} tokens or requests would take {step_seconds:g} s")
        return round(step_seconds * 1e12)

    return counted


_LONGEST_S = 1e6
"""Eleven days; as picoseconds a few of them still fit into 64 bits."""


def in_pieces(times: Callable[[F64], F64], ahead: int) -> Seconds:
    """A function of one number from a function of many, which is called for `ahead` numbers at a time."""
    computed: dict[int, F64] = {}

    def seconds(n: int) -> float:
        piece, place = divmod(n, ahead)
        if piece not in computed:
            computed[piece] = times(np.arange(piece * ahead, (piece + 1) * ahead, dtype=np.float64))
        return float(computed[piece][place])

    return seconds


def roofline_attention(
    per_pair: float, per_token: float, per_context: float, least: float
) -> core.ServingRoofline:
    """The core's roofline of attention, from seconds for each pair, token and cached token."""
    return core.ServingRoofline(
        ps_per_pair=per_pair * 1e12,
        ps_per_token=per_token * 1e12,
        ps_per_context=per_context * 1e12,
        least=least * 1e12,
    )


def add_reach(
    roofline: core.ServingRoofline,
    reach: Reach,
    *,
    pair: float,
    work: float,
    token: float,
    context: float,
    sequence: float,
    least: float,
) -> None:
    """Adds layers of another reach to a roofline, from seconds for each of what they do."""
    roofline.add(
        most=reach.most,
        stride=reach.stride,
        chunk=reach.chunk,
        sparse=reach.sparse,
        ps_per_pair=pair * 1e12,
        work_per_token=work * 1e12,
        ps_per_token=token * 1e12,
        ps_per_context=context * 1e12,
        ps_per_sequence=sequence * 1e12,
        least=least * 1e12,
    )


def flat(values: Any) -> F64:
    """An array in the layout of the core: contiguous floats in one dimension."""
    return np.ascontiguousarray(values, np.float64).reshape(-1)


def no_attention() -> core.ServingRoofline:
    """Attention that takes no time."""
    return roofline_attention(0.0, 0.0, 0.0, 0.0)
