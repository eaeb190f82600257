"""One stage's program: tasks tiled over micro-batches, streams, tags, and the order on streams."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.program import MESSAGES, Stage, StageProgram, WorkloadLayout, stage_program
from chakrakit.workloads.program.program import COMPUTE

SMALL = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)


def made(stage: int = 0, batch: int = 2, **plan: object) -> tuple[WorkloadLayout, StageProgram]:
    step = Step(seq=16, global_batch=batch)
    layout = WorkloadLayout(Workload(model=SMALL, plan=Plan(**plan), step=step))  # type: ignore[arg-type]
    return layout, stage_program(layout, stage)


def test_every_micro_batch_has_the_same_rows() -> None:
    _, program = made(batch=3)
    batches = Counter(program.columns["micro_batch"].tolist())
    assert batches[0] == batches[1] == batches[2] > 0
    assert batches[-1] == len(program) - 3 * batches[0]  # the end of the step
    flops = program.columns["flops"]
    each = [flops[program.columns["micro_batch"] == m].sum() for m in range(3)]
    assert len(set(each)) == 1


def test_dependencies_stay_within_the_program_and_each_is_there_once() -> None:
    _, program = made(tp=2, pp=2)
    for pairs in (program.data, program.control):
        assert pairs.min() >= 0
        assert pairs.max() < len(program)
    keys = program.data[:, 0] * len(program) + program.data[:, 1]
    assert len(np.unique(keys)) == len(keys)


def test_compute_runs_in_order_on_its_stream() -> None:
    _, program = made()
    compute = np.flatnonzero(program.columns["stream"] == COMPUTE)
    known = {tuple(p) for p in np.concatenate([program.data, program.control]).tolist()}
    assert all((a, b) in known for a, b in pairwise(compute.tolist()))
    _, free = made(strict=False)
    assert len(free.control) < len(program.control)


def test_both_ends_of_a_message_have_the_same_tags() -> None:
    layouts, programs = zip(*(made(stage, batch=4, pp=2) for stage in (0, 1)), strict=True)
    tags = []
    for layout, program in zip(layouts, programs, strict=True):
        ops = layout.book.ops.texts
        for op in ("send", "recv"):
            rows = program.columns["op"] == ops.index(op)
            assert (program.columns["stream"][rows] >= MESSAGES).all()
            tags.append(sorted(program.columns["tag"][rows].tolist()))
    sent, received, sent_back, received_back = tags[0], tags[1], tags[2], tags[3]
    assert sent == received_back
    assert sent_back == received
    assert len(set(sent)) == 4


def test_a_gradient_is_complete_in_the_last_task_that_makes_one() -> None:
    layout, program = made(batch=3)
    stage = Stage(layout, 0)
    held = stage.held_weights()[0]
    row = stage.gradient_row(held)
    assert program.columns["micro_batch"][row] == 2
    name = layout.book.names.texts[program.columns["name"][row]]
    assert (held.weight.name, name) == ("embedding.weight", "embedding.dw")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "dualpipe"])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_pipeline_gathers_what_stays_once_a_step(schedule: str, steps: int) -> None:
    """However many micro-batches pass; and it is held until the last of them is through."""
    plan = {"dp": 2, "pp": 2, "data": "fsdp", "reshard": "never", "schedule": schedule}
    layout, program = made_in_steps(steps, batch=8, **plan)
    gathers = program.columns["stays"] > 0
    first_chunk = len(layout.pieces[layout.schedule.pieces[0][0]])
    units = sum(len(layout.pieces[piece]) for piece in layout.schedule.pieces[0])
    assert gathers.sum() == steps * units
    assert set(program.columns["micro_batch"][gathers][:first_chunk].tolist()) == {0}
    alloc, free = program.columns["alloc"], program.columns["free"]
    assert alloc.sum() == free.sum()
    assert (np.cumsum(alloc - free) >= 0).all()
    readers = program.data[gathers[program.data[:, 0]], 1]
    batches = program.columns["micro_batch"][readers]
    assert len(set(batches.tolist())) > steps  # later micro-batches wait for the same gathers


def test_without_a_pipeline_what_stays_is_gathered_for_every_micro_batch() -> None:
    _, program = made(batch=8, dp=2, data="fsdp", reshard="never")
    assert not program.columns["stays"].any()


def made_in_steps(steps: int, batch: int, **plan: object) -> tuple[WorkloadLayout, StageProgram]:
    step = Step(seq=16, global_batch=batch)
    workload = Workload(model=SMALL.replace(layers=4), plan=Plan(**plan), step=step)  # type: ignore[arg-type]
    layout = WorkloadLayout(workload, steps=steps)
    return layout, stage_program(layout, 0)
