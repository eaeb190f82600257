"""Communication kept whole: what one rank does not keep, the ranks it communicates with do not either."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.trace.sets import TraceSet


def whole_communication(traces: TraceSet, kept: Mapping[int, Mask]) -> dict[int, Mask]:
    """Rows to keep by rank, without collectives and messages of which a part is not kept."""
    found = {rank: mask.copy() for rank, mask in kept.items()}
    calls, messages = traces.collectives.calls, traces.collectives.messages
    _drop_partial(found, calls, calls["instance"].to_numpy())
    _drop_partial(found, messages, messages["message"].to_numpy())
    return found


def _drop_partial(kept: Mapping[int, Mask], table: pa.Table, number: I64) -> None:
    """Drops all rows of a number if one of them is not kept."""
    if not table.num_rows:
        return
    rank, row = table["rank"].to_numpy(), table["row"].to_numpy()
    stays = np.array([kept[r][i] for r, i in zip(rank.tolist(), row.tolist(), strict=True)])
    broken = np.zeros(number.max() + 1, np.bool_)
    broken[number[~stays]] = True
    for r, i in zip(rank[broken[number]].tolist(), row[broken[number]].tolist(), strict=True):
        kept[r][i] = False
