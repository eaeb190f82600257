"""Fewer ranks than were recorded, and more."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.plan import Collective, StandIn
from chakrakit.replayer.ranks import ReplayWorld
from chakrakit.replayer.session import prepare
from support.recorded import linked

PAIRS = ck.Groups({"0": [0, 1, 2, 3], "a": [0, 1], "b": [2, 3], "c": [0, 2], "d": [1, 3]})


def groups_of(size):
    return [(g.name, g.ranks) for g in ReplayWorld((0, 1, 2, 3), size, PAIRS).all_groups()]


def test_as_many_ranks_keep_their_groups():
    assert groups_of(4) == [(n, list(r)) for n, r in PAIRS.items()]


def test_in_fewer_ranks_a_group_keeps_the_members_that_are_here():
    assert groups_of(2) == [("0", [0, 1]), ("a", [0, 1]), ("c", [0]), ("d", [1])]


def test_more_ranks_repeat_the_recorded_ones_with_groups_of_their_own():
    world = ReplayWorld((0, 1, 2, 3), 6, PAIRS)
    assert [world.recorded_rank(r) for r in range(6)] == [0, 1, 2, 3, 0, 1]
    assert groups_of(6)[5:] == [("0", [4, 5]), ("a", [4, 5]), ("c", [4]), ("d", [5])]
    assert dict(world.named_groups())["a.1"] == (4, 5)


def test_a_recording_of_some_ranks_is_replayed_by_as_many():
    """Ranks 2 and 5 of a larger job become ranks 0 and 1; their group loses who was not recorded."""
    world = ReplayWorld((2, 5), 2, ck.Groups({"0": range(8), "x": [2, 3]}))
    assert [(g.name, g.ranks) for g in world.all_groups()] == [("0", [0, 1]), ("x", [0])]


def test_no_ranks_at_all():
    with pytest.raises(ConfigError, match="nproc"):
        ReplayOptions(nproc=-1)
    with pytest.raises(TraceError, match="no rank"):
        ReplayWorld((), 1, PAIRS)


@pytest.fixture(scope="module")
def four():
    return linked("gpt_fsdp_tp_4")


@pytest.fixture(scope="module")
def whole(four):
    return prepare(four, ReplayOptions()).plans[0]


@pytest.mark.slow
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
