"""Times of a run, one for each node and within the horizon: what every reader of the run asks of them."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.errors import TraceError
from chakrakit.trace.sets import Run, check_length
from chakrakit.trace.validation.findings import Findings


def check_times(run: Run, rows: Sequence[int], findings: Findings) -> None:
    """A finding for each kind of rank whose times no command would take; `rows` are nodes by body."""
    if run.times is None:
        return
    for ranks in run.folds:
        rank = ranks[0]
        try:
            given = len(run.times[run.timing[rank]].start)
            check_length(given, rows[run.bindings[rank].body], rank)
            run.sound_times(rank)
        except TraceError as error:
            said = str(error).removeprefix(f"rank {rank}: ")
            findings.add("run-times", rank, said, count=len(ranks))
