"""Exchanges of experts beside computation: a forward and a backward of two micro-batches take turns."""

import numpy as np
import pytest

from chakrakit import generate, simulate
from chakrakit.errors import ChakraError
from chakrakit.trace.validation import validate
from chakrakit.workloads.description import schedule_named
from chakrakit.workloads.program.turns import one_ahead

EXPERTS = {"model": "qwen3-30b-a3b", "layers": 8, "dp": 8, "ep": 8, "seq": 1024}
PIPELINE = {"pp": 2, "schedule": "interleaved", "chunks": 2}


def test_one_more_forward_is_ahead_of_every_backward():
    tasks = one_ahead(schedule_named("1f1b", 1, 3, 1)).tasks[0]
    assert [f"{t.kind}{t.micro_batch}" for t in tasks] == ["F0", "F1", "B0", "F2", "B1", "B2"]


@pytest.mark.parametrize("pipeline", [{}, PIPELINE])
def test_the_same_work_takes_less_time_beside_exchanges(pipeline):
    plan = EXPERTS | pipeline | {"global_batch": 64}
    apart, beside = (generate(**plan, exchange_overlap=on).traces for on in (False, True))
    for name in ("num_ops", "comm_size"):
        assert apart[0].column(name, 0).sum() == beside[0].column(name, 0).sum()
    machine = f"dgx-h100:{len(apart) // 8}"
    times = [simulate(traces, machine).makespan_ns for traces in (apart, beside)]
    assert times[1] < times[0]


def test_a_forward_begins_again_at_every_exchange_and_every_edge_leads_on():
    traces = generate(**EXPERTS, global_batch=24, exchange_overlap=True).traces
    trace = traces[0]
    codes, names = trace.texts("phase")
    work = trace.column("num_ops", 0) > 0
    forward = np.array([*(n == "forward" for n in names), False])[codes][work]
    begins = np.count_nonzero(np.diff(forward.astype(int)) > 0) + 1
    assert begins == 3 + 2 * (2 * EXPERTS["layers"])
    assert not validate(traces).findings


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_pipelines_without_forwards_far_enough_ahead_are_refused(schedule):
    with pytest.raises(ChakraError, match="exchange_overlap needs schedule interleaved"):
        generate(**EXPERTS, pp=2, schedule=schedule, global_batch=32, exchange_overlap=True)
