"""Operators, steps, launches, roofline and memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.memory.memory import memory
from chakrakit.insight.time.launches import launches
from chakrakit.insight.time.operators import operators
from chakrakit.insight.time.roofline import roofline
from chakrakit.insight.time.step_times import steps
from chakrakit.trace.sets.run import Run, Times, run_of
from support import paths

DATA = paths.DATA / "pytorch"


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


def test_marked_steps_have_the_period_of_the_device(linked):
    found = steps(linked("gpt2_124m_b8_s1024", two_passes=True))
    assert found.found == "marked"
    assert [round(s.period_ns / 1e6, 1) for s in found.steps] == [44.9, 44.8]


def repeated(names: list[str], times: int) -> Run:
    t = ck.TraceBuilder()
    last: list[int] = []
    for name in names * times:
        last = [t.comp(name, stream=7, duration_ns=10, deps=last)]
    n = len(names) * times
    start = np.arange(n) * 10
    return run_of(ck.TraceSet([t.build()]), {0: Times(start, start + 10)}, tick_ps=1000)


def test_unmarked_steps_are_found_where_work_repeats():
    """Five steps of forward, a loop of four layers twice over, and an update."""
    names = ["embed", *["attn", "mlp", "norm", "add"] * 2, "loss", "update"]
    found = steps(repeated(names, 5))
    assert found.found == "repeating"
    assert len(found.steps) == 5
    assert found.median_ns == 110


def test_a_run_without_repetition_is_one_step():
    found = steps(repeated(["a", "b", "c", "d", "e"], 1))
    assert (found.found, found.median_ns) == ("none", 50)


def test_launch_figures(linked):
    (rank,) = launches(linked("resnet50_b128")).ranks
    trace = linked("resnet50_b128").trace(0)
    assert rank.launched == 963
    assert 0 < rank.delay_median_ns <= rank.delay_p90_ns
    took = trace.duration_ns[~trace.column("is_cpu_op").astype(bool)]
    assert rank.small <= (took < 10_000).sum()
    assert 0 <= rank.queue_mean <= rank.queue_most


def test_roofline_of_a_product(linked):
    """The last layer of GPT-2: 8192 × 768 × 50257, two operations a multiply-add, bf16."""
    found = roofline(linked("gpt2_124m_b8_s1024"), peak_tflops=989, peak_gbps=4800)
    point = next(p for p in found.points if p.shapes == "[[8192,768],[768,50257]]")
    assert point.ops == 2 * 8192 * 768 * 50257
    assert point.tflops == pytest.approx(point.ops / point.time_ns / 1e3)
    assert 0 < point.of_roof <= 1
    assert found.mfu == pytest.approx(found.tflops_per_rank / 989)


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_peak_memory_is_what_the_allocator_counted(linked, name):
    card = json.loads((DATA / name / "card.json").read_text())
    found = memory(linked(name))
    assert found.peak_bytes == pytest.approx(card["peak_mem_bytes"], rel=0.05)
    (rank,) = found.ranks
    assert sum(rank.by_kind.values()) == rank.peak_bytes
    assert sum(h.bytes for h in rank.holders) <= rank.peak_bytes
    assert max(m.bytes for m in rank.timeline) == rank.peak_bytes


def tensor(storage: int, elements: int) -> str:
    return f'[[1,{storage},0,{elements},4,"cuda:0"]]'


def test_memory_by_hand():
    """A weight held before; two activations that overlap for one operator; numbers used again."""
    rows = [
        ("a", "[]", tensor(1, 1024)),  # makes 1
        (
            "b",
            f"[{tensor(1, 1024)[1:-1]},{tensor(9, 256)[1:-1]}]",
            tensor(2, 2048),
        ),  # 1 and weight 9 → 2
        ("c", tensor(2, 2048), tensor(1, 512)),  # 1 again: another tensor
    ]
    start = np.array([0, 10, 20])
    trace = ck.Trace.from_columns(
        {
            "name": [r[0] for r in rows],
            "type": [4] * 3,
            "is_cpu_op": [True] * 3,
            "tid": [1] * 3,
            "start_time_ns": start,
            "duration_ns": [10] * 3,
            "inputs_values": [r[1] for r in rows],
            "outputs_values": [r[2] for r in rows],
        }
    )
    (rank,) = memory(Run([trace])).ranks
    assert rank.before_bytes == 1024
    assert rank.peak_bytes == 1024 + 4096 + 8192  # weight, 1 and 2 while b runs
    assert rank.peak_ns == 10
    assert rank.tensors == 4


def test_traces_without_tensors_say_so(two_ranks):
    found = memory(two_ranks)
    assert found.peak_bytes == 0
    assert "no tensors" in found.source
