"""What is selected stays as it was and in the order it had, whatever was left out in between."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, Run, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.select import Select
from chakrakit.simulator.results import simulate
from support import paths
from support.recorded import linked

DATA = paths.DATA / "pytorch"


def four_ranks():
    """Two bodies, folded: each a step in two phases with a collective in each."""
    bodies = []
    for _ in range(2):
        t = TraceBuilder()
        for step in (1, 2):
            f = t.comp("mlp", duration_ns=10, phase="forward", step=step, module="m.0")
            c = t.collective(
                "r",
                CollectiveType.ALL_REDUCE,
                100,
                pg_name="tp",
                phase="forward",
                step=step,
                module="m.0",
                deps=[f],
            )
            b = t.comp("mlp", duration_ns=10, phase="backward", step=step, module="m.1", deps=[c])
            t.collective(
                "g",
                CollectiveType.ALL_REDUCE,
                100,
                pg_name="dp",
                phase="backward",
                step=step,
                module="m.1",
                deps=[b],
            )
        bodies.append(t.build())
    groups = {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}
    bindings = {r: Binding(r // 2, {"tp": str(1 + r // 2), "dp": str(3 + r % 2)}) for r in range(4)}
    return TraceSet(bodies, bindings, Groups(groups))


@pytest.mark.parametrize(
    ("select", "ids"),
    [
        (Select(steps=(2,)), [4, 5, 6, 7]),
        (Select(phases=("forward",)), [0, 1, 4, 5]),
        (Select(phases=("forward",), steps=(1,)), [0, 1]),
        (Select(modules=(r"m\.1",)), [2, 3, 6, 7]),
        (Select(groups=("dp",)), [3, 7]),
        (Select(groups=("1", "2")), [1, 5]),
        (Select(around=2), [1, 2, 3]),
        (Select(around=2, hops=0), [2]),
        (Select(around=2, hops=99), [0, 1, 2, 3]),
    ],
    ids=str,
)
def test_what_a_field_means(select, ids):
    after = four_ranks() | select
    assert [after.trace(r).ids.tolist() for r in after.ranks] == [ids] * 4
    assert after.body_count == 2
    assert after.groups == four_ranks().groups


def test_a_group_of_some_ranks_leaves_the_others_nothing():
    after = four_ranks() | Select(groups=("1",))
    assert [len(after.trace(r)) for r in range(4)] == [2, 2, 0, 0]


def test_ranks_and_ranges_of_ranks():
    after = four_ranks() | Select(ranks=(0, "2-3"))
    assert (after.ranks, after.missing_ranks) == ((0, 2, 3), (1,))
    for ranks in ("3-4", "0-99999999999"):
        with pytest.raises(TraceError, match=r"no rank \d+; the last of 4 is 3"):
            _ = four_ranks() | Select(ranks=(ranks,))
    with pytest.raises(TraceError, match="no rank 1; there are 0, 2, 3"):
        _ = after | Select(ranks=(1,))


def test_ranks_alone_change_no_program():
    run = simulate(four_ranks(), "dgx-h100").run()
    some = run | Select(ranks=(0, 1))
    assert some.body_at(0) is run.body_at(0)
    assert some.counters.keys() == run.counters.keys() != set()


def test_a_time_window_of_a_simulated_run_keeps_its_times():
    run = simulate(four_ranks(), "dgx-h100").run()
    middle = run.makespan_ns / 1000 / 2
    late = run | Select(window_us=(middle, 2 * middle))
    assert isinstance(late, Run)
    assert 0 < len(late.trace(0)) < 8
    rows = np.searchsorted(run.trace(0).ids, late.trace(0).ids)
    assert (late.start(0) == run.start(0)[rows]).all()
    assert (late.end(0) > middle * 1e6).all()
    with pytest.raises(TraceError, match="these traces have no times"):
        _ = four_ranks() | Select(window_us=(0, 1))


def test_a_collective_that_one_rank_would_lose_is_lost_by_all():
    bodies = []
    for start in (0, 900):
        t = TraceBuilder()
        t.comp("a", start_ns=start, duration_ns=10)
        t.collective("r", CollectiveType.ALL_REDUCE, 8, start_ns=start + 50, duration_ns=20)
        t.comp("b", start_ns=start + 80, duration_ns=10)
        bodies.append(t.build())
    run = Run(bodies)
    part = run | Select(window_us=(0, 0.5))
    assert [part.trace(r).ids.tolist() for r in (0, 1)] == [[0, 2], []]
    assert simulate(part, "dgx-h100").makespan_ns == 20


def test_messages_stay_in_pairs():
    run = linked("gpt_pp_2")
    first, last = run.span
    part = run | Select(window_us=(0, (last - first) / 2000))
    for rank, other in product((0, 1), (0, 1)):
        if rank != other:
            assert np.count_nonzero(part.trace(rank).types == 5) == np.count_nonzero(
                part.trace(other).types == 6
            )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ranks": ("a",)}, "ranks: 'a' should be a rank or a range"),
        ({"ranks": (-1,)}, "ranks: -1 should be"),
        ({"ranks": ("5-3",)}, "ranks: '5-3' should be"),
        ({"window_us": (5.0, 5.0)}, "from before to"),
        ({"around": 1, "hops": -1}, "hops=-1"),
    ],
)
def test_senseless_fields_are_refused(fields, said):
    with pytest.raises(ConfigError, match=said):
        Select(**fields)


def test_nothing_left_is_an_error():
    with pytest.raises(ConfigError, match="steps: no node has 9; there are "):
        _ = four_ranks() | Select(steps=(9,))
    with pytest.raises(ConfigError, match="groups: no 'nobody'; there are "):
        _ = four_ranks() | Select(groups=("nobody",))
    with pytest.raises(ConfigError, match="nodes: no node has 999"):
        _ = four_ranks() | Select(around=999)
