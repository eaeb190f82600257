"""The host of captured programs: what launches cost, and when they bound a step."""

import pytest

import chakrakit as ck
from chakrakit import NodeType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
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
    """Ten launches of 30.6 us bound kernels of 1 us; kernels of 100 us wait for the first one alone."""
    small, large = (ck.simulate(program(*[us] * 10), "dgx-h200").makespan_ns for us in (1, 100))
    assert small == pytest.approx(10 * 30.6e3 + 1000, abs=20)
    assert large == pytest.approx(30.6e3 + 10 * 100e3, abs=20)


def test_the_host_can_be_left_out_and_is_added_once():
    traces = program(1, 1)
    assert ck.simulate(traces, "dgx-h200", host=False).makespan_ns == pytest.approx(2000)
    hosted = traces | Launched(launch_us=5.0)
    assert ck.simulate(hosted, "dgx-h200").makespan_ns == pytest.approx(11_000)
    assert Launched().explain(traces, hosted) == {"launches": 2}


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
