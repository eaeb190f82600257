"""Rows are cut into pieces: host threads at calls, launches and waits; device rows not at all."""

from __future__ import annotations

import numpy as np

from chakrakit.passes.plain_graph import TimedRows, cut
from chakrakit.trace.model import EdgeForm, Edges

HOST, DEVICE = True, False


def rows(*given: tuple[int, int, bool], own: list[int] | None = None, edges=None) -> TimedRows:
    """Rows as (start, end, whether they share the host's thread), all on one lane per side."""
    start, end, threaded = (np.array(c) for c in zip(*given, strict=True))
    return TimedRows(
        start,
        end,
        end - start if own is None else np.array(own),
        threaded,
        np.where(threaded, 0, 1),
        np.ones(len(start), np.bool_),
        edges or Edges.empty(),
    )


def shown(found) -> list[tuple[int, int, int]]:
    return list(zip(found.row.tolist(), found.start.tolist(), found.end.tolist(), strict=True))


def test_what_an_operator_calls_is_cut_out_of_it() -> None:
    found = cut(rows((0, 10, HOST), (3, 6, HOST), (4, 5, HOST)))
    assert shown(found) == [(0, 0, 3), (0, 6, 10), (1, 3, 4), (1, 5, 6), (2, 4, 5)]


def test_an_operator_that_its_callee_fills_is_an_empty_piece() -> None:
    assert shown(cut(rows((0, 10, HOST), (0, 10, HOST)))) == [(0, 0, 0), (1, 0, 10)]


def test_a_launch_cuts_its_operator_and_no_device_row() -> None:
    launch = Edges.of([0], [1], form=EdgeForm.START_START, lag=2)
    found = cut(rows((0, 10, HOST), (5, 30, DEVICE), edges=launch))
    assert shown(found) == [(0, 0, 2), (0, 2, 10), (1, 5, 30)]


def test_a_wait_is_left_out() -> None:
    """The operator works 2, waits for the kernel until 30, and ends at 31."""
    wait = Edges.of([1], [0], form=EdgeForm.FINISH_FINISH)
    found = cut(rows((0, 31, HOST), (5, 30, DEVICE), own=[3, 25], edges=wait))
    assert shown(found) == [(0, 0, 2), (0, 30, 31), (1, 5, 30)]


def test_rows_that_did_not_run_have_no_pieces() -> None:
    given = rows((0, 10, HOST), (2, 4, DEVICE))
    given.ran[:] = [True, False]
    assert shown(cut(given)) == [(0, 0, 10)]
