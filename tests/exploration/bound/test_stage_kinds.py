"""The stages of a pipeline that differ."""

from __future__ import annotations

from chakrakit.exploration.pipeline_bound import StageKinds


def test_stages_in_the_middle_are_alike(layout) -> None:
    """Only the first has the embedding and only the last the head."""
    kinds = StageKinds(layout(pp=4, dp=2))
    assert kinds.of == [0, 1, 1, 2]
    assert [stage.stage for stage in kinds.stages] == [0, 1, 3]
    assert [kinds.ranks(kind) for kind in range(3)] == [2, 4, 2]


def test_a_stage_runs_its_tasks_in_the_schedule_s_order(layout) -> None:
    """One forward, one backward: the first stage has both micro-batches under way at once."""
    kinds = StageKinds(layout(pp=2, schedule="1f1b"))
    told = [[f"{t.kind}{t.micro_batch}" for t in kinds.tasks(s)] for s in (0, 1)]
    assert told == [["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]
