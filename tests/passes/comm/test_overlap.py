"""Communication issued earlier, later or on another stream: what runs beside what, and what waits."""

from __future__ import annotations

import pytest

from chakrakit import CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.passes.comm import Comm
from support.comm_cases import alike, generated, gradients, makespan

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


# --- overlap ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1])
def test_prefetching_is_what_the_generator_calls_prefetch(ahead):
    """FSDP with one more unit gathered ahead, forward and backward each: the same to the picosecond."""
    less, more = (generated("fsdp", prefetch=p) for p in (ahead, ahead + 1))
    out = less
    for phase in ("forward", "backward"):
        out = out | Comm("prefetch", types=("all-gather",), phases=(phase,))
    times = [makespan(t, "dgx-h100:4", "roofline") for t in (less, more, out)]
    assert times[0] != times[1] == times[2]


def test_delaying_takes_a_prefetch_back_but_for_the_first():
    gathers = {"types": ("all-gather",), "phases": ("forward",)}
    traces = generated("fsdp", prefetch=0)
    back = traces | Comm("prefetch", **gathers) | Comm("delay", **gathers)
    before, after = (makespan(t, "dgx-h100:4", "roofline") for t in (traces, back))
    assert after == pytest.approx(before, rel=0.01)


def test_serialized_communication_is_not_hidden():
    """The step takes all of compute and all of communication, one after the other."""
    t = gradients([100_000] * 4)
    traces = alike(t)
    alone = TraceBuilder()
    alone.collective("one", AR, 100_000)
    one = makespan(alike(alone), "dgx-h100:2")
    assert makespan(traces, "dgx-h100:2") < 5000 + 4 * one
    assert makespan(traces | Comm("serialize"), "dgx-h100:2") == pytest.approx(5000 + 4 * one)


def test_serializing_what_meets_in_another_order_is_refused():
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        order = ("p", "q") if rank else ("q", "p")
        for g in order:
            before = t.comp(f"before {g}", duration_ns=10, stream=0)
            t.collective(f"in {g}", AR, 100, pg_name=g, deps=[before])
        t.comp("after", duration_ns=10, stream=0)
        bodies.append(t.build())
    traces = TraceSet(bodies, groups=Groups({"p": [0, 1], "q": [0, 1]}))
    assert makespan(traces, "dgx-h100:2") > 0
    with pytest.raises(TraceError, match="wait for itself"):
        traces | Comm("serialize")
