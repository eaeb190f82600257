"""Fewer ranks than were recorded, and more."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.plan.plan import Collective, StandIn
from chakrakit.replayer.plan.ranks import World
from chakrakit.replayer.run.session import prepare
from support.recorded import linked

PAIRS = ck.Groups({"0": [0, 1, 2, 3], "a": [0, 1], "b": [2, 3], "c": [0, 2], "d": [1, 3]})


def groups_of(size):
    return [(g.name, g.ranks) for g in World((0, 1, 2, 3), size, PAIRS).all_groups()]


def test_as_many_ranks_keep_their_groups():
    assert groups_of(4) == [(n, list(r)) for n, r in PAIRS.items()]


def test_in_fewer_ranks_a_group_keeps_the_members_that_are_here():
    assert groups_of(2) == [("0", [0, 1]), ("a", [0, 1]), ("c", [0]), ("d", [1])]


def test_more_ranks_repeat_the_recorded_ones_with_groups_of_their_own():
    world = World((0, 1, 2, 3), 6, PAIRS)
    assert [world.recorded_rank(r) for r in range(6)] == [0, 1, 2, 3, 0, 1]
    assert groups_of(6)[5:] == [("0", [4, 5]), ("a", [4, 5]), ("c", [4]), ("d", [5])]
    assert dict(world.named_groups())["a.1"] == (4, 5)


def test_a_recording_of_some_ranks_is_replayed_by_as_many():
    """Ranks 2 and 5 of a larger job become ranks 0 and 1; their group loses who was not recorded."""
    world = World((2, 5), 2, ck.Groups({"0": range(8), "x": [2, 3]}))
    assert [(g.name, g.ranks) for g in world.all_groups()] == [("0", [0, 1]), ("x", [0])]


def test_no_ranks_at_all():
    with pytest.raises(ConfigError, match="nproc"):
        ReplayOptions(nproc=-1)
    with pytest.raises(TraceError, match="no rank"):
        World((), 1, PAIRS)


@pytest.fixture(scope="module")
def four():
    return linked("gpt_fsdp_tp_4")


@pytest.fixture(scope="module")
def whole(four):
    return prepare(four, ReplayOptions()).plans[0]


@pytest.mark.parametrize(("shrink", "gathered"), [("keep", 1), ("scale", 2)])
def test_parts_or_wholes_are_kept_in_a_smaller_group(four, whole, shrink, gathered):
    """In two ranks of four, the groups of FSDP have one member each: it gathers its part, or the whole."""
    part = prepare(four, ReplayOptions(nproc=2, shrink=shrink)).plans[0]
    assert part.count == whole.count
    sizes = [
        [
            _elements(p, s.outputs[0])
            for s in p.steps
            if isinstance(s, Collective) and s.op == "all_gather_flat"
        ]
        for p in (whole, part)
    ]
    assert [2 * n for n in sizes[1]] == [gathered * n for n in sizes[0]]


def _elements(plan, slot):
    """How many elements the tensor in a slot has, wherever it comes from."""
    made = [v for e in plan.externals for v in e.views]
    for step in plan.steps:
        made += getattr(step, "made", [])
        if hasattr(step, "base"):
            made.append((step.slot, step.dtype, step.shape, step.strides, step.offset))
    shape = next(m[2] for m in made if m[0] == slot)
    count = 1
    for n in shape:
        count *= n
    return count


def test_a_message_to_a_rank_that_is_not_here_is_counted_as_not_replayed():
    plan = prepare(linked("gpt_pp_2"), ReplayOptions(nproc=1)).plans[0]
    names = sorted(s.name for s in plan.steps if isinstance(s, StandIn))
    assert names == [
        f"{end} (the other end is not here)" for end in ("recv", "recv", "send", "send")
    ]
    assert plan.count == [484, 488]


@pytest.mark.parametrize(
    ("ranks", "shrink", "size"), [(2, "keep", 200), (2, "scale", 400), (4, "keep", 400)]
)
def test_emulated_communication_shrinks_by_the_same_rule(ranks, shrink, size):
    t = ck.TraceBuilder()
    t.collective("x", ck.CollectiveType.ALL_GATHER, 100)
    t.collective("y", ck.CollectiveType.REDUCE_SCATTER, 400)
    t.collective("z", ck.CollectiveType.ALL_TO_ALL, 400)
    traces = ck.TraceSet([t.build()] * 4, groups=ck.Groups({"0": range(4)}))
    found = (
        prepare(traces, ReplayOptions(mode="comm", nproc=ranks, shrink=shrink))
        .plans[0]
        .communication
    )
    assert found[0].output == size
    assert found[1].input == size
    assert sum(found[2].in_splits) == found[2].output == size


def test_communication_of_a_pipeline_that_never_ran_is_issued_in_an_order_that_can_be():
    """Rank 0's backward all-reduce depends only on a receive, which depends on all of its forward."""
    first, last = ck.TraceBuilder(), ck.TraceBuilder()
    back = first.recv("grad", 1, 0, 64)
    late = first.collective("backward", ck.CollectiveType.ALL_REDUCE, 64, deps=[back])
    early = first.collective("forward", ck.CollectiveType.ALL_REDUCE, 64, deps=[first.comp("x")])
    first.send("act", 0, 1, 64, deps=[early])
    got = last.recv("act", 0, 1, 64)
    last.send("grad", 1, 0, 64, deps=[last.comp("y", deps=[got])])
    groups = ck.Groups({"0": [0, 1], "mine": [0]})
    traces = ck.TraceSet([first.build(), last.build()], groups=groups)
    order = prepare(traces, ReplayOptions(mode="comm")).plans[0].order
    assert order.index(early) < order.index(late)
