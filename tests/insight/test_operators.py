"""Time by operator, kernel, module, phase and shapes: sums that are exact."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.operators import add_operators, listed_operators, operators, operators_of
from chakrakit.insight.rank import rank_view
from chakrakit.trace.sets import Times, run_of


def test_kernels_sum_to_the_device_time(linked):
    run = linked("gpt2_124m_b8_s1024")
    trace = run.trace(0)
    device = ~trace.column("is_cpu_op").astype(bool)
    found = operators(run)
    assert found.total_ns == trace.duration_ns[device].sum()
    assert sum(k.time_ns for k in found.kernels) == found.total_ns
    assert sum(k.time_ns for k in found.operators) == found.total_ns
    assert sum(k.count for k in found.operators) == device.sum()


def test_a_kernel_belongs_to_the_operator_that_launched_it(linked):
    """GPT-2's largest operator is the matrix product, whatever its kernels are called."""
    found = operators(linked("gpt2_124m_b8_s1024"))
    assert found.operators[0].name == "aten::mm"
    assert not any("gemm" in k.name for k in found.operators)
    assert {p.name for p in found.phases} >= {"forward", "backward", "optimizer"}


def test_operations_are_counted_exactly(two_ranks):
    found = operators(two_ranks)
    assert {k.name: k.ops for k in found.kernels if k.ops} == {"forward": 2000}


def test_like_ranks_are_added_as_often_as_there_are(two_ranks):
    one = operators_of(rank_view(two_ranks, 0))
    total = operators_of(rank_view(two_ranks, 0))
    add_operators(total, one, ranks=3)
    assert total.total_ns == 4 * one.total_ns
    found = {s.name: (s.count, s.time_ns, s.ops) for s in listed_operators(total).kernels}
    assert found == {"sum": (4, 160_000, 0), "forward": (4, 40_000, 4000), "update": (4, 20_000, 0)}


def test_a_host_operator_has_its_own_time_without_what_runs_inside_it():
    """An operator of 30 with a call of the runtime from 10 to 15 that launches a kernel of 50."""
    t = ck.TraceBuilder()
    operator = t.comp("op", is_cpu_op=True, tid=1)
    call = t.comp("cudaLaunchKernel", is_cpu_op=True, tid=1, parent=operator)
    kernel = t.comp("kernel", stream=7)
    t.edge(call, kernel, ck.EdgeKind.LAUNCH)
    times = Times(np.array([0, 10, 20]), np.array([30, 15, 70]))
    [found] = operators(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)).operators
    assert (found.name, found.kind, found.time_ns) == ("op", "compute", 50)
    assert found.host_ns == 30  # 25 of its own and 5 of the runtime's call
