"""Recorded calls written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from chakrakit.sources.calls import STATES, RecordedCalls, RecordedGroup


@pytest.fixture
def made() -> Callable[..., RecordedCalls]:
    """Makes calls from (name, group, created, completed); groups are lists of ranks, -1 is unknown."""

    def make(
        calls: Sequence[tuple[str, int, int, int]],
        groups: Sequence[RecordedGroup] = (RecordedGroup("0", "default_pg", (0, 1)),),
        state: str = "completed",
    ) -> RecordedCalls:
        names = sorted({name for name, *_ in calls})
        rows = [(names.index(n), g, start, end) for n, g, start, end in calls]
        name, group, created, completed = np.array(rows, np.int64).reshape(-1, 4).T
        same = np.zeros(len(calls), np.int64)
        return RecordedCalls(
            rank=0,
            host="",
            group=group,
            groups=list(groups),
            sequence=np.arange(len(calls)),
            message=np.array(["send" in n or "recv" in n for n, *_ in calls], np.bool_),
            name=name,
            names=names,
            created=created,
            started=same - 1,
            completed=completed,
            device_ns=same - 1,
            timeout_ns=same - 1,
            state=same + STATES.index(state),
            in_sizes=same,
            out_sizes=same,
            in_types=same + 1,
            out_types=same + 1,
            texts=[[[4, 2], [3]], ["Float", "BFloat16"]],
        )

    return make
