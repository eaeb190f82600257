"""What all passes have in common: pure, folded, noted in the card, and honest about times."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit.passes
from chakrakit import Run, TraceBuilder, TraceSet
from chakrakit.passes import Compact, Edit, Recost, Select
from chakrakit.simulator.results import simulate
from chakrakit.trace.storage import read, write
from chakrakit.trace.timing import schedule
from support import paths
from support.comparing import differences
from support.examples import examples
from support.random_workloads import random_case
from support.recorded import linked

DATA = paths.DATA / "pytorch"
TIMES = {"duration_micros", "duration_ns", "own_ns"}


def test_there_is_nothing_else():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = chakrakit.passes.Nothing


def test_the_room_imports_no_pass_before_it_is_used():
    module = importlib.import_module("chakrakit.passes")
    assert "Compact" not in vars(module)


# --- on random traces -----------------------------------------------------------------------------


def random_traces(seed):
    return random_case(seed)[0]


@pytest.mark.slow
@examples(15)
@given(st.integers(0, 10**6))
def test_edits_change_times_and_nothing_else(seed):
    before = random_traces(seed)
    for one in (Edit(scale=3.5), Recost(scale={"compute": 0.5})):
        try:
            after = before | one
        except chakrakit.errors.TraceError:
            continue  # nothing to edit
        assert (after.ranks, after.groups) == (before.ranks, before.groups)
        for rank in before.ranks:
            changed = differences(*(TraceSet([t.trace(rank)]) for t in (before, after)))
            assert {name.split(" of ")[0] for name in changed} <= TIMES


@examples(15)
@given(st.integers(0, 10**6))
def test_compacted_bodies_keep_their_order_and_times(seed):
    before = random_traces(seed)
    after = before | Compact()
    for number in range(before.body_count):
        a, b = before.body_at(number), after.body_at(number)
        kept = np.searchsorted(a.ids, b.ids)
        starts = [schedule(len(t), t.edges, t.own_ns).start for t in (a, b)]
        assert (starts[0][kept] == starts[1]).all()


@examples(15)
@given(st.integers(0, 10**6))
def test_selected_nodes_are_the_nodes_they_were(seed):
    before = random_traces(seed)
    rank = before.ranks[-1]
    after = before | Select(ranks=(rank,), around=0, hops=2)
    whole, part = before.trace(rank), after.trace(rank)
    rows = np.searchsorted(whole.ids, part.ids)
    for name in set(part.nodes.column_names) - {
        "ctrl_deps",
        "data_deps",
        "edge_kinds",
        "edge_lags_ns",
    }:
        assert part.nodes[name].to_pylist() == whole.nodes[name].take(rows).to_pylist()


# --- on recordings --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "cnn_ddp_2", "gpt_fsdp_tp_4"])
@pytest.mark.parametrize(
    ("one", "more"),
    [
        (Edit(scale=3), ""),
        (Edit(add_us=5, on="host"), ""),
        (Edit(scale=3, on="host"), "edge_lags_ns"),
        (Recost(scale={"host": 0.5}), "edge_lags_ns"),
        (Recost("dgx-a100", measured_on="dgx-h200"), ""),
    ],
    ids=str,
)
def test_recordings_keep_all_but_times(name, one, more):
    run = linked(name)
    if not run.trace(0).has("stream").any() and "device" in str(getattr(one, "on", "")):
        with pytest.raises(chakrakit.errors.TraceError, match="no device node is selected"):
            _ = run | one
        return
    assert {name.split(" of ")[0] for name in differences(run, run | one)} <= TIMES | {more}


# --- cards and times ------------------------------------------------------------------------------


def pair():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1000, is_cpu_op=True, tid=1)
    t.comp("b", duration_ns=2000, deps=[a], stream=1)
    return TraceSet([t.build()])


def test_passes_leave_what_they_were_given_alone_and_the_card_tells():
    before = pair()
    after = before | Edit(scale=2) | Compact() | Select(ranks=(0,))
    assert before.card.passes == []
    assert before.trace(0).own_ns.tolist() == [1000, 2000]
    assert after.card.passes == ["edit{scale=2}", "compact", "select{ranks=[0]}"]


def test_a_run_stays_a_run_where_its_times_stay_true():
    run = simulate(pair(), "dgx-h100").run()
    for one, kind in ((Compact(), Run), (Select(around=1), Run), (Edit(scale=2), TraceSet)):
        assert type(run | one) is kind
    part = run | Select(around=1, hops=0)
    assert (part.start(0), part.end(0)) == (run.start(0)[1:], run.end(0)[1:])


def test_changed_traces_are_no_run_when_they_are_read_again(tmp_path):
    t = TraceBuilder()
    t.comp("k", start_ns=5000, duration_ns=1000)
    write(Run([t.build()]) | Edit(scale=2), tmp_path / "edited")
    write(Run([t.build()]) | Compact(), tmp_path / "compacted")
    assert type(read(tmp_path / "edited")) is TraceSet
    assert type(read(tmp_path / "compacted")) is Run
