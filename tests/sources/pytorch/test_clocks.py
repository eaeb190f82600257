"""One clock for all ranks: moved by what ends everywhere at once."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.clocks import RankCollectives, align_clocks
from chakrakit.trace.model import CollectiveType as C


def _call(group: str, sequence: int) -> RecordedCollective:
    return RecordedCollective(0, 0, C.ALL_REDUCE, "x", group=group, sequence=sequence)


def _on(host, shift, ends):
    made = [_call("0", n) for n in range(len(ends))]
    return RankCollectives(made, [0] * len(ends), [e + shift for e in ends], host)


def test_clocks_are_aligned_by_what_ends_together():
    ranks = {0: _on("a", 0, [100, 200, 300]), 1: _on("b", 7000, [103, 198, 301])}
    clock = align_clocks(ranks)
    assert clock.offset == {0: 0, 1: -7001}
    assert clock.skew_ns == {"median": 2, "largest": 3}


def test_ranks_on_one_host_are_not_moved():
    clock = align_clocks({0: _on("a", 0, [100, 200]), 1: _on("a", 50, [100, 200])})
    assert clock.offset == {0: 0, 1: 0}
    assert clock.skew_ns["median"] == 50


def oracle(ranks: dict[int, RankCollectives]) -> dict[int, int]:
    """Offsets by looking at every pair of ranks by itself, along the shortest chains."""
    ends: dict[int, dict[tuple[str | None, int], int]] = {
        r: {(c.group, c.sequence): e for c, e in zip(x.collectives, x.end, strict=True)}
        for r, x in ranks.items()
    }
    offset: dict[int, int] = {}
    for first in sorted(ranks):
        level = [] if first in offset else [first]
        offset.setdefault(first, 0)
        while level:
            reached = []
            for here in level:
                for other in sorted(set(ranks) - set(offset)):
                    shared = ends[here].keys() & ends[other].keys()
                    if ranks[here].host and ranks[here].host == ranks[other].host:
                        apart = 0
                    elif shared:
                        apart = int(np.median([ends[here][k] - ends[other][k] for k in shared]))
                    else:
                        continue
                    offset[other] = offset[here] + apart
                    reached.append(other)
            level = reached
    return offset


@pytest.mark.parametrize("seed", range(10))
def test_clocks_of_many_ranks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = {}
    for rank in range(12):
        groups = [f"g{i}" for i in range(6) if rng.random() < 0.3]
        calls = [_call(g, s) for g in groups for s in range(3)]
        ends = rng.integers(0, 1000, len(calls)).tolist()
        host = str(rng.choice(["", "a", "b"]))
        ranks[rank] = RankCollectives(calls, ends, ends, host)
    assert align_clocks(ranks).offset == oracle(ranks)
