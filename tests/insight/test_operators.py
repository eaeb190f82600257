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
    sums = operators(run)
    assert sums.total_ns == trace.duration_ns[device].sum()
    assert sum(k.time_ns for k in sums.kernels) == sums.total_ns
    assert sum(k.time_ns for k in sums.operators) == sums.total_ns
    assert sum(k.count for k in sums.operators) == device.sum()


def test_a_kernel_belongs_to_the_operator_that_launched_it(linked):
    """GPT-2's largest operator is the matrix product, whatever its kernels are called."""
    sums = operators(linked("gpt2_124m_b8_s1024"))
    assert sums.operators[0].name == "aten::mm"
    assert not any("gemm" in k.name for k in sums.operators)
    assert {p.name for p in sums.phases} >= {"forward", "backward", "optimizer"}


def test_operations_are_counted_exactly(two_ranks):
    sums = operators(two_ranks)
    assert {k.name: k.ops for k in sums.kernels if k.ops} == {"forward": 2000}


def test_like_ranks_are_added_as_often_as_there_are(two_ranks):
    rank_sums = operators_of(rank_view(two_ranks, 0))
    total = operators_of(rank_view(two_ranks, 0))
    add_operators(total, rank_sums, ranks=3)
    assert total.total_ns == 4 * rank_sums.total_ns
    sums = {s.name: (s.count, s.time_ns, s.ops) for s in listed_operators(total).kernels}
    assert sums == {"sum": (4, 160_000, 0), "forward": (4, 40_000, 4000), "update": (4, 20_000, 0)}


def test_a_host_operator_has_its_own_time_without_what_runs_inside_it():
    """An operator of 30 with a call of the runtime from 10 to 15 that launches a kernel of 50."""
    t = ck.TraceBuilder()
    operator = t.comp("op", is_cpu_op=True, tid=1)
    call = t.comp("cudaLaunchKernel", is_cpu_op=True, tid=1, parent=operator)
    kernel = t.comp("kernel", stream=7)
    t.edge(call, kernel, ck.EdgeKind.LAUNCH)
    times = Times(np.array([0, 10, 20]), np.array([30, 15, 70]))
    [sums] = operators(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)).operators
    assert (sums.name, sums.kind, sums.time_ns) == ("op", "compute", 50)
    assert sums.host_ns == 30  # 25 of its own and 5 of the runtime's call
