"""The ways to serve a model on some devices: parallel degrees, replicas or pools, batch limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.serving import Layout
from chakrakit.workloads.description import Decoder

BATCH_TOKENS = (2048, 8192, 16384)
BATCH_REQUESTS = (64, 256)
"""Batch limits that are tried unless the user says which; engines' defaults are among them."""
AXES = ("tp", "pp", "ep", "batch_tokens", "batch_requests", "pools")


class Candidate(msgspec.Struct, frozen=True):
    """One way: engines, and what a step of theirs may hold."""

    layout: Layout
    batch_tokens: int
    batch_requests: int
    devices: int


class ServingSpace(msgspec.Struct, frozen=True):
    """What may be chosen. `pools` says whether prefill and decode are `together`, `apart`, or either."""

    tp: list[int]
    pp: list[int]
    ep: list[int]
    batch_tokens: list[int]
    batch_requests: list[int]
    pools: list[str]

    def layouts(self, devices: int) -> Iterator[Layout]:
        """Every layout that uses exactly so many devices."""
        if "together" in self.pools:
            yield from self._together(devices)
        if "apart" in self.pools:
            yield from self._apart(devices)

    def _together(self, devices: int) -> Iterator[Layout]:
        for tp in self.tp:
            for pp in self.pp:
                for ep in self.ep:
                    engines, left = divmod(devices, tp * pp * ep)
                    if engines and not left:
                        yield Layout(tp=tp, pp=pp, dp=ep, ep=ep, replicas=engines)

    def _apart(self, devices: int) -> Iterator[Layout]:
        """Pools of one stage: prefill engines of one size, decode engines of another."""
        for before in self.tp:
            for after in self.tp:
                for prefill in range(1, devices // before + 1):
                    decode, left = divmod(devices - prefill * before, after)
                    if decode and not left:
                        yield Layout(
                            prefill=prefill, decode=decode, prefill_tp=before, decode_tp=after
                        )

    def candidates(self, devices: int) -> Iterator[Candidate]:
        """Every layout with every pair of batch limits."""
        for layout in self.layouts(devices):
            for tokens in self.batch_tokens:
                for requests in self.batch_requests:
                    yield Candidate(layout, tokens, requests, devices)


def serving_space(
    model: Decoder, machine: Machine, given: Mapping[str, Sequence[Any]]
) -> ServingSpace:
    """The space, with the axes that are given in place of what would be tried."""
    for name in given:
        if given[name] and name not in AXES:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} is not for --serve, which chooses {', '.join(AXES)}")
    wrong = [w for w in given.get("pools") or () if w not in ("together", "apart")]
    if wrong:
        raise ConfigError(f"--pools {','.join(wrong)}: give together, apart, or both with a comma")
    node = machine.dimensions[0].size
    heads = model.kv_heads or model.heads
    powers = [2**i for i in range(12) if 2**i <= min(node, machine.size)]
    kept = {k: list(v) for k, v in given.items() if v}
    experts = [e for e in (1, *powers[1:]) if model.experts and model.experts % e == 0] or [1]
    return ServingSpace(
        tp=kept.get(
            "tp", [t for t in powers if model.heads % t == 0 and heads % min(t, heads) == 0]
        ),
        pp=kept.get("pp", [1]),
        ep=kept.get("ep", experts),
        batch_tokens=kept.get("batch_tokens", list(BATCH_TOKENS)),
        batch_requests=kept.get("batch_requests", list(BATCH_REQUESTS)),
        pools=kept.get("pools", ["together", "apart"]),
    )
