"""Intervals of predicted times: learned from rows that were not fitted, put together along a path."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import chakrakit as ck
from chakrakit.machines.residuals import (
    BETWEEN_NODES,
    HOST_GROUP,
    Contribution,
    ErrorSpread,
    ResidualTable,
    TimeInterval,
    beside_host,
    collective_group,
    difference,
    interval_in,
    interval_of,
    kernel_group,
    residual_table,
)
from support.paths import DATA

LEAST_COVERED, LEAST_COUNTED = 0.80, 20
LARGE = ("kernel", "measured profile", "matmul", "large", "within", "h200")
LARGE_VECTOR = ("kernel", "measured profile", "vector", "large", "within", "h200")
CARDS = [("collective", name) for name in ("dgx-b200", "l40s-pcie", "rtx-pro-6000")]


def test_intervals_hold_rows_that_were_left_out():
    """Operations whose time was measured, each by itself: by kind and by system, nine of ten are within."""
    shares = {}
    for name, rows in json.loads((DATA / "held_out_residuals.json").read_text()).items():
        within = [holds(group.split("/"), residual) for group, residual in rows]
        shares[name] = sum(within) / len(within)
    assert len(shares) >= 15
    assert {name: share for name, share in shares.items() if share < LEAST_COVERED} == {}


def holds(group: list[str], residual: float) -> bool:
    """Whether the interval of an operation of one second holds its measured time."""
    found = interval_of(1.0, [Contribution(tuple(group), "it", 1.0)])
    assert found is not None
    return found.low_ns <= math.exp(residual) * 1e9 <= found.high_ns


def test_the_intervals_of_the_package_hold_what_was_measured():
    """Rows that were left out, by kind and by system; of fewer than twenty, chance decides."""
    coverage = residual_table().coverage
    judged = {name: share for name, (rows, share) in coverage.items() if rows >= LEAST_COUNTED}
    assert len(judged) >= 15
    assert {name: share for name, share in judged.items() if share < LEAST_COVERED} == {}


def test_a_group_with_few_rows_takes_the_wider_one():
    table = residual_table()
    assert table.spread(*LARGE[:5], "a card nobody measured") == table.spread(*LARGE[:5])
    assert table.spread("no such kind of row") is None


def test_what_few_rows_show_widens_the_group_that_stands_in_for_them():
    """And only that: another framework is as uncertain as those with enough rows, not as every outlier."""
    groups = {
        "step": ErrorSpread(100, -0.1, 0.0, 0.1),
        "step/many": ErrorSpread(96, -0.1, 0.0, 0.12),
        "step/few": ErrorSpread(4, 0.0, 0.2, 0.5),
        "serving/ttft/engine": ErrorSpread(60, -0.2, 0.0, 0.2),
        "serving/ttft/engine/a": ErrorSpread(50, -0.3, 0.0, 0.1),
        "serving/ttft/engine/b": ErrorSpread(10, 0.0, 0.1, 0.4),
    }
    table = ResidualTable([], 0.0, groups)
    ends = {
        ("step", "few", "m"): (-0.1, 0.5),
        ("step", "other", "m"): (-0.1, 0.12),
        ("step", "many", "m"): (-0.1, 0.12),
        ("serving", "ttft", "engine", "a"): (-0.3, 0.1),
        ("serving", "ttft", "engine", "b"): (-0.3, 0.4),
        ("serving", "ttft", "engine", "c"): (-0.3, 0.2),
    }
    found = {parts: table.cautious(*parts) for parts in ends}
    assert {parts: (f.low, f.high) for parts, f in found.items() if f is not None} == ends


def test_more_is_never_known_of_what_fewer_rows_say():
    """Systems, frameworks and sizes that nobody measured are as uncertain as each that was."""
    table = residual_table()
    pairs = [
        (("kernel", "carried profile", "vector", "large", "within", "abacus"), LARGE_VECTOR),
        ((*LARGE[:4], "beyond", "h200"), LARGE),
        (("step", "abacus", "dgx-h100"), ("step", "llm-foundry", "dgx-a100")),
        *((("collective", "abacus", "all-reduce", "middle"), (*c, "all-reduce")) for c in CARDS),
    ]
    for less, more in pairs:
        cautious, known = table.cautious(*less), table.spread(*more)
        assert cautious is not None
        assert known is not None
        assert cautious.low <= known.low
        assert cautious.high >= known.high
    assert table.cautious("no such kind of row") is None


def test_no_interval_begins_before_what_a_data_sheet_allows():
    part = Contribution(LARGE, "a", 1.0, 0.99)
    assert interval_of(1.0, [part]).low_ns == pytest.approx(0.99e9)
    assert interval_of(1.0, [part], least_seconds=0.999).low_ns == pytest.approx(0.999e9)


def width(found: TimeInterval | None) -> float:
    assert found is not None
    return found.high_ns - found.low_ns


def test_equal_operations_share_one_error_and_different_ones_a_part_of_it():
    one = interval_of(1.0, [Contribution(LARGE, "a", 1.0)])
    equal = interval_of(1.0, [Contribution(LARGE, "a", 0.01)] * 100)
    different = interval_of(1.0, [Contribution(LARGE, str(i), 0.01) for i in range(100)])
    assert width(equal) == pytest.approx(width(one))
    shared = math.sqrt(residual_table().correlation)
    assert width(different) == pytest.approx(shared * width(one), rel=0.1)


def test_what_both_runs_have_cancels_in_their_difference():
    one = interval_of(1.0, [Contribution(LARGE, "a", 1.0)])
    same = interval_of(1.1, [Contribution(LARGE, "a", 1.0), Contribution(("network",), "n", 0.1)])
    other = interval_of(1.1, [Contribution(LARGE, "b", 1.1)])
    apart = [high - low for low, high in (difference(one, x, 0.1e9) for x in (same, other))]
    assert apart[0] == 0
    assert 0 < apart[1] < width(one) + width(other)


def test_published_steps_differ_by_more_than_their_kernels_say():
    """Two steps of one framework: as far apart as pairs of published ones, for what only one of them has."""
    parts = [[Contribution(LARGE, name, 1.0)] for name in "ab"]
    plain = [interval_of(1.0, p) for p in parts]
    steps = [interval_of(1.0, p, ("step", "llm-foundry", "dgx-a100")) for p in parts]
    low, high = difference(*plain, 0.0)
    least, most = difference(*steps, 0.0)
    assert least < low
    assert most > high
    assert difference(steps[0], steps[0], 5.0) == (5.0, 5.0)
    elsewhere = interval_of(1.0, parts[1], ("step", "llm-foundry", "dgx-h100"))
    for b, rows in ((steps[1], "pair/llm-foundry/dgx-a100"), (elsewhere, "pair")):
        off = math.expm1(residual_table().groups[rows].high) * 1e9
        assert difference(steps[0], b, 0.0)[1] == pytest.approx(math.hypot(high, off), rel=1e-3)


@pytest.mark.slow
def test_a_simulation_and_its_analysis_say_the_interval_and_measured_times_have_none():
    traces = ck.generate(model="gpt3-125m", tp=2, seq=128, global_batch=1).traces
    done = ck.simulate(traces, "dgx-h100")
    low, high = done.summary.interval_ns
    assert 0 < low < high
    run = done.run()
    assert ck.analyze(run).footprint.interval_ns == (low, high)
    measured = ck.simulate(run, compute="measured", communication="measured").summary
    assert measured.interval_ns is None


def test_between_nodes_is_said_to_be_modelled():
    modelled = []
    for dp in (8, 16):
        traces = ck.generate(model="gpt3-125m", dp=dp, seq=128, global_batch=dp).traces
        modelled.append(ck.simulate(traces, "dgx-h100:2").summary.modelled)
    assert modelled == [False, True]


def test_messages_between_nodes_are_said_to_be_modelled_without_any_group(tmp_path: Path):
    goal = tmp_path / "far.goal"
    ranks = "".join(f"rank {i} {{\nc: calc 5\n}}\n" for i in range(1, 8))
    ends = "rank 0 {\ns: send 8b to 8 tag 0\n}\n" + ranks + "rank 8 {\nr: recv 8b from 0 tag 0\n}\n"
    goal.write_text(f"num_ranks 9\n{ends}")
    assert ck.simulate(goal, "dgx-h100:2").summary.modelled


def test_served_figures_have_intervals_where_runs_of_the_engine_are_known():
    done = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=4,n=4,prompt=64,output=4}")
    low, high = done.intervals["tpot_ms"]["mean"]
    assert low < done.tpot_ms.mean < high


def test_a_modelled_host_has_one_error_and_may_bound_what_it_works_beside():
    """The interval of a host is that of programs which launches bound; a slower one would take over."""
    host = interval_of(1.0, [Contribution(HOST_GROUP, "host", 1.0)])
    spread = residual_table().spread(*HOST_GROUP)
    assert host.high_ns == pytest.approx(1e9 * math.exp(spread.high), rel=1e-6)
    device = interval_of(1.0, [Contribution(LARGE, "a", 1.0)])
    assert beside_host(device, 0.1) == device
    assert beside_host(device, 0.9).high_ns == pytest.approx(0.9e9 * math.exp(spread.high))


def test_what_is_modelled_between_nodes_is_less_sure_than_what_was_measured_within_one():
    groups = (collective_group(name, "all-reduce", 1e-3) for name in ("dgx-h100", BETWEEN_NODES))
    within, between = (interval_of(1.0, [Contribution(g, "a", 1.0)]) for g in groups)
    assert width(between) > 3 * width(within)
    assert (within.modelled, between.modelled) == (False, True)


def test_a_result_hands_its_interval_on_whole() -> None:
    said = {
        "interval_groups": {"gemm": (1.0, 0.1, 0.0, 0.1)},
        "interval_operations": {"gemm": {"mm": 1.0}},
    }
    result = SimpleNamespace(
        interval_ns=(90.0, 120.0), interval_step="dense", clock_mhz=1200.0, **said
    )
    interval = interval_in(result)
    assert interval is not None
    assert (interval.low_ns, interval.high_ns, interval.clock_mhz) == (90.0, 120.0, 1200.0)
    assert (interval.groups, interval.operations, interval.step) == (*said.values(), "dense")
    assert interval_in(SimpleNamespace(interval_ns=None)) is None


def test_an_interval_holds_the_time_that_it_belongs_to():
    """Measured kernels all take longer than a data sheet's rates say; the interval begins at that time."""
    group = kernel_group("data sheet", "h200", "vector", 3e-6, beyond=False)
    found = interval_of(1.0, [Contribution(group, str(i), 0.01) for i in range(100)])
    assert found is not None
    assert found.low_ns <= 1e9 <= found.high_ns
