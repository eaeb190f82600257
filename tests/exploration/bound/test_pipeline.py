"""Tasks in the order of a pipeline's schedule, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.exploration.pipeline_bound import StageKinds, pipeline_starts
from chakrakit.exploration.task_rows import BlockRows


@pytest.mark.parametrize(
    ("before", "starts"),
    [
        (0, [5020, 4010]),
        (5, [5020, 4015]),  # what needs no message runs while it is on its way, where there is time
    ],
)
def test_two_stages_of_two_micro_batches(layout, before: int, starts: list[int]) -> None:
    """Every task takes 1,000 ps and a message 10 ps.

    Stage 1: F0 from 1,010, B0 from 2,010, F1 from 3,010, B1 from 4,010.
    Stage 0: F0, F1 until 2,000, B0 from 3,020, B1 10 ps after the end of stage 1's at 5,010.
    """
    kinds = StageKinds(layout(pp=2, schedule="1f1b"))
    rows = BlockRows(kinds.layout, kinds.stages)
    spans = np.tile([0, 1000, 0], len(rows.blocks))
    if before:
        last = [i for i, b in enumerate(rows.blocks) if b.stage == 1 and b.key[0] == "B"]
        spans.reshape(-1, 3)[last] = [before, 1000 - before, 0]
    assert pipeline_starts(kinds, rows, spans, lambda _size, _src, _dst: 10) == starts


def test_without_a_pipeline_tasks_follow_one_another(layout) -> None:
    kinds = StageKinds(layout())
    rows = BlockRows(kinds.layout, kinds.stages)
    spans = np.tile([0, 100, 0], len(rows.blocks))
    assert pipeline_starts(kinds, rows, spans, lambda *_: 10) == [300]
