"""The host of captured programs: what launches cost, and when they bound a step."""

import json

import pytest

import chakrakit as ck
from chakrakit import CollectiveType, NodeType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.anonymize import Anonymize
from chakrakit.passes.launched import Launched
from chakrakit.trace.communication import Binding
from chakrakit.trace.sets import Card


def program(*kernels_us):
    """Kernels that follow each other, as `chakra capture` would leave them."""
    t, last = TraceBuilder(), []
    for number, us in enumerate(kernels_us):
        last = [t.comp(f"kernel {number}", deps=last, duration_ns=us * 1000)]
    return TraceSet([t.build()], {0: Binding(0)}, card=Card(tool="chakra capture"))


def test_small_kernels_wait_for_their_launches_and_long_ones_hide_them():
    """Ten launches bound kernels of 1 us; those of 100 us wait for the first alone, with gaps between."""
    host = Launched(launch_us=30.0, gap_us=2.0)
    small, large = (
        ck.simulate(program(*[us] * 10) | host, "dgx-h200").makespan_ns for us in (1, 100)
    )
    assert small == pytest.approx(10 * 30e3 + 1000, abs=20)
    assert large == pytest.approx(30e3 + 10 * 100e3 + 9 * 2e3, abs=20)


def test_captured_programs_have_a_host_unless_it_is_left_out():
    traces = program(1, 1)
    default, bare = (ck.simulate(traces, "dgx-h200", host=h).makespan_ns for h in (True, False))
    assert bare == pytest.approx(2000)
    assert default == pytest.approx(2 * Launched().launch_us * 1e3 + 1000, abs=20)
    hosted = traces | Launched(launch_us=5.0, gap_us=0.0)
    assert ck.simulate(hosted, "dgx-h200").makespan_ns == pytest.approx(11_000)
    assert Launched().explain(traces, hosted) == {"launches": 2}


def test_kernels_of_two_streams_keep_no_gap_between_them():
    t = TraceBuilder()
    for stream in (0, 1, 0):
        t.comp("kernel", stream=stream, duration_ns=1000)
    edges = Launched(gap_us=3.0)._launched(t.build()).edges
    gaps = edges.lag > 0
    assert list(zip(edges.src[gaps], edges.dst[gaps], edges.lag[gaps], strict=True)) == [
        (0, 2, 3000)
    ]


def test_collectives_of_one_stream_take_turns_and_wait_for_the_host_to_come_to_them():
    """Rows: two kernels, two all-reduces, two launches. The host has come to both after its second launch."""
    t = TraceBuilder()
    for _ in range(2):
        t.comp("kernel", stream=0, duration_ns=1000)
    for _ in range(2):
        t.collective("ALL_REDUCE", CollectiveType.ALL_REDUCE, 8 << 20, stream=1)
    body = t.build()
    edges = Launched(gap_us=0.0)._launched(body).edges
    pairs = set(zip(edges.src.tolist(), edges.dst.tolist(), strict=True))
    assert pairs == {(4, 0), (5, 1), (4, 5), (0, 1), (5, 2), (5, 3), (2, 3)}
    traces = TraceSet([body], {r: Binding(0) for r in range(8)}, card=Card(tool="chakra capture"))
    alone = ck.simulate(traces, "dgx-h100", host=False).makespan_ns
    hosted = ck.simulate(traces | Launched(launch_us=30.0), "dgx-h100").makespan_ns
    assert hosted == pytest.approx(60_000 + alone, abs=2_000)


def test_a_cast_costs_the_host_less_than_an_operator():
    t = TraceBuilder()
    t.comp("aten::_to_copy")
    t.comp("aten::mm")
    body = Launched(launch_us=30.0, copy_us=10.0)._launched(t.build())
    assert body.own_ns[2:].tolist() == [10_000, 30_000]


def test_added_launches_do_not_change_the_memory_of_a_program():
    """The first kernel's tensor is freed by a view on the host, which no launch holds back."""
    t = TraceBuilder()
    first = t.comp("aten::mm", mem_alloc=100, duration_ns=1000)
    second = t.comp("aten::mm", mem_alloc=50, duration_ns=1000, deps=[first])
    t.comp("aten::view", is_cpu_op=True, mem_free=100)
    t.comp("aten::mm", mem_alloc=10, mem_free=60, duration_ns=1000, deps=[second])
    traces = TraceSet([t.build()], {0: Binding(0)}, card=Card(tool="chakra capture"))
    peaks = [
        ck.simulate(traces, "dgx-h200", host=h).summary.ranks[0].peak_bytes for h in (True, False)
    ]
    assert peaks == [150, 150]


def test_programs_that_were_not_captured_have_no_host():
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2, layers=1).traces
    alike = [ck.simulate(traces, "dgx-h100", host=host).makespan_ns for host in (True, False)]
    assert alike[0] == alike[1]


def test_a_fused_optimizer_costs_for_each_parameter():
    t = TraceBuilder()
    t.comp("aten::_fused_adamw_", phase="optimizer", inputs_shapes="[[[2],[2],[2]],[[2],[2],[2]]]")
    body = Launched(optimizer_us=10.0, parameter_us=20.0)._launched(t.build())
    assert body.is_type(NodeType.COMP_NODE).sum() == 2
    assert body.own_ns.max() == 70_000


def test_a_launch_has_a_time():
    with pytest.raises(ConfigError, match="launch_us"):
        Launched(launch_us=-1.0)


def test_a_run_that_launches_bound_says_that_its_interval_leaves_the_host_out():
    small, large = (ck.simulate(program(*[us] * 10), "dgx-h200").facts() for us in (1, 1000))
    (note,) = small.notes
    assert "% of the time is the host's" in note
    assert large.notes == []


def test_an_anonymized_program_is_launched_as_before():
    """Names say what is a copy and shapes how long a list is; both are gone, and what follows is not."""
    t = TraceBuilder()
    t.comp("aten::mm", duration_ns=1000)
    t.comp("aten::copy_", duration_ns=1000)
    shapes = json.dumps([[[4, 4]] * 7])
    t.comp("aten::_foreach_add_", duration_ns=1000, phase="optimizer", inputs_shapes=shapes)
    captured = TraceSet([t.build()], {0: Binding(0)}, card=Card(tool="chakra capture"))
    before, after = (
        ck.simulate(traces, "dgx-h200").makespan_ns for traces in (captured, captured | Anonymize())
    )
    default = Launched()
    host_us = default.launch_us + default.copy_us + default.optimizer_us + 7 * default.parameter_us
    assert before == after == pytest.approx(host_us * 1e3 + 1000, abs=20)


def test_kernels_that_stand_before_what_they_wait_for_are_launched_after_it():
    """Launches follow the program, not the file: the result has no circle, and takes what the other takes."""
    t = TraceBuilder()
    for number in range(3):
        t.comp(f"kernel {number}", duration_ns=1000)
    backwards = t.build().with_edges(ck.Edges.of([2, 1], [1, 0], 0))
    traces = TraceSet([backwards], {0: Binding(0)}, card=Card(tool="chakra capture")) | Launched()
    assert ck.validate(traces).ok
    in_order = program(1, 1, 1) | Launched()
    times = [ck.simulate(each, "dgx-h200").makespan_ns for each in (traces, in_order)]
    assert times[0] == times[1]
