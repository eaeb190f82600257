"""The table of a job trace, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chakrakit.arrays import I64, Mask
from chakrakit.errors import FormatError
from chakrakit.trace.communication import MAX_RANKS
from chakrakit.trace.files import read_parquet

NUMBERS = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id", "gmc")
TIMES = ("start_ts", "duration")
COLUMNS = (*NUMBERS, *TIMES, "optype")

MESSAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
COLLECTIVES = (
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "embedding-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "optimizer-clip-main-grad",
)
COMPUTE = ("forward-compute", "backward-compute", "gc", "optimizer")
OPERATIONS = (*COMPUTE, *MESSAGES, *COLLECTIVES)
"""All types of operations; their places here are their codes."""

_LONGEST = 1e7
"""Seconds: a step longer than four months is not one."""


@dataclass(frozen=True, eq=False)
class Operations:
    """One entry per operation; times in nanoseconds since the start of its step."""

    path: str
    dp_rank: I64
    stage: I64
    rank: I64
    step: I64
    seq_id: I64
    mc: I64
    mb_id: I64
    gmc: I64
    start: I64
    end: I64
    code: I64
    """The operation's place in `OPERATIONS`."""

    def __len__(self) -> int:
        return len(self.code)

    @property
    def stages(self) -> int:
        """How many pipeline stages there are."""
        return int(self.stage.max()) + 1

    @property
    def chunks(self) -> int:
        """How many model chunks per stage has."""
        return int(self.mc.max(initial=0)) + 1

    def take(self, rows: I64 | Mask) -> Operations:
        """Some of them."""
        arrays = {n: v[rows] for n, v in vars(self).items() if isinstance(v, np.ndarray)}
        return Operations(self.path, **arrays)


def is_job_trace(path: str | Path) -> bool:
    """Whether a file is such a table, by its columns."""
    if not str(path).endswith(".parquet") or not Path(path).is_file():
        return False
    try:
        return {"optype", "dp_rank", "stage", "start_ts"} <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return False


def read_operations(path: str | Path) -> Operations:
    """The table; a FormatError says what is wrong with it."""
    where = str(path)
    with Path(path).open("rb") as stream:
        table = read_parquet(stream, where, "job trace")
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise FormatError(
            f"no column {missing[0]!r}; a job trace has {', '.join(COLUMNS)}", path=where
        )
    if not table.num_rows:
        raise FormatError("the job trace has no rows; give one that was recorded", path=where)
    numbers = {name: _numbers(table, name, where) for name in NUMBERS}
    start, length = (_nanoseconds(table, name, where) for name in TIMES)
    if (length < 0).any():
        row = int(np.flatnonzero(length < 0)[0])
        raise FormatError(f"row {row} ends before it starts; leave the row out", path=where)
    found = Operations(where, **numbers, start=start, end=start + length, code=_codes(table, where))
    _check_workers(found)
    return found


def _numbers(table: pa.Table, name: str, path: str) -> I64:
    column = table[name]
    if column.null_count or not pa.types.is_integer(column.type):
        raise FormatError(f"column {name!r} should hold whole numbers without gaps", path=path)
    values = np.asarray(column)  # of any width: a cast of numbers beyond 64 bits would be an error
    low = -1 if name in ("mc", "mb_id", "gmc") else 0
    most = MAX_RANKS - 1 if name in ("dp_rank", "stage", "rank") else 1 << 40
    wrong = np.flatnonzero((values < low) | (values > most))
    if len(wrong):
        row = int(wrong[0])
        raise FormatError(
            f"column {name!r}, row {row}: {values[row]} is not from {low} to {most}", path=path
        )
    return values.astype(np.int64)


def _nanoseconds(table: pa.Table, name: str, path: str) -> I64:
    column = table[name]
    if column.null_count or not pa.types.is_floating(column.type):
        raise FormatError(f"column {name!r} should hold seconds without gaps", path=path)
    values = np.asarray(column, np.float64)
    if not np.isfinite(values).all() or (np.abs(values) > _LONGEST).any():
        raise FormatError(f"column {name!r} has times that cannot be", path=path)
    return np.rint(values * 1e9).astype(np.int64)


def _codes(table: pa.Table, path: str) -> I64:
    names = table["optype"].cast(pa.string())
    code = pc.index_in(names, pa.array(OPERATIONS))
    if code.null_count:
        found = names.filter(pc.is_null(code)).cast(pa.binary())[0].as_py()
        name = None if found is None else found.decode(errors="replace")
        raise FormatError(
            f"operation {name!r} is not known; there are {', '.join(OPERATIONS)}", path=path
        )
    return np.asarray(code, np.int64)


def _check_workers(found: Operations) -> None:
    """One rank is one place in the job, and one operation is there once."""
    place = found.dp_rank * found.stages + found.stage
    pairs = np.unique(np.stack([found.rank, place]), axis=1)
    ranks, places = (np.unique(line) for line in pairs)
    if len(ranks) != pairs.shape[1] or len(places) != pairs.shape[1]:
        raise FormatError("two ranks share a stage of one data-parallel replica", path=found.path)
    keys = np.stack([found.rank, found.step, found.code, found.seq_id])
    if np.unique(keys, axis=1).shape[1] != len(found):
        raise FormatError(
            "an operation is there twice: same rank, step, type and seq_id", path=found.path
        )
