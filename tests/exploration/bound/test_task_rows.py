"""One task of each kind, and the step's end, as rows of one table."""

from __future__ import annotations

import numpy as np

from chakrakit.exploration.pipeline_bound import StageKinds
from chakrakit.exploration.task_rows import AFTER_OUTPUT, BEFORE_INPUT, MAIN, BlockRows
from chakrakit.trace.model import Graph


def rows_of(layout) -> BlockRows:
    kinds = StageKinds(layout)
    return BlockRows(layout, kinds.stages)


def test_forward_backward_and_the_end_are_a_block_each(layout) -> None:
    rows = rows_of(layout(dp=2))
    assert [(b.key[0], b.is_tail) for b in rows.blocks] == [("F", False), ("B", False), ("B", True)]
    assert rows.blocks[-1].rows.stop == len(rows)
    forward, backward, tail = rows.blocks
    assert list(rows.counts(0)) == [
        (forward.rows, 2),
        (backward.rows, 2),
        (slice(tail.rows.start + tail.task_rows, tail.rows.stop), 1),
    ]


def test_a_stage_in_the_middle_cuts_its_tasks_at_the_messages(layout) -> None:
    """What a message is for comes after it; what makes the output of a task before it is sent."""
    rows = rows_of(layout(pp=4))
    middle = next(b for b in rows.blocks if b.stage == 1 and b.key[0] == "F" and not b.is_tail)
    cut = rows.segment[middle.rows] % 3
    assert (np.diff(cut) >= 0).all()
    assert MAIN in cut
    assert set(cut.tolist()) <= {BEFORE_INPUT, MAIN, AFTER_OUTPUT}


def test_edges_stay_within_segments_and_have_no_cycle(layout) -> None:
    rows = rows_of(layout(pp=2, dp=2))
    src, dst = rows.edges()
    assert (rows.segment[src] == rows.segment[dst]).all()
    assert len(Graph(len(rows), src, dst).topological_order()) == len(rows)


def test_every_row_is_of_one_sort_and_collectives_are_told_apart(layout) -> None:
    rows = rows_of(layout(tp=2))
    assert not (rows.is_collective & rows.is_compute).any()
    found = list(rows.collectives())
    assert (
        sorted(np.concatenate([r for *_, r in found]).tolist())
        == np.flatnonzero(rows.is_collective).tolist()
    )
    assert "tp" in {role for _, _, role, _ in found}
