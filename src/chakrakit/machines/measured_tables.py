"""Tables of measurements that people bring, CSV or Parquet, and the names of collectives in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chakrakit.errors import FormatError
from chakrakit.trace.files import check_columns, read_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "message",
}
"""Collectives by the names that nccl-tests and tables give them, without hyphens."""


def collective_named(name: object) -> str | None:
    """The collective of that name, however it is spelled; None if it is none."""
    return _KINDS.get(str(name).lower().replace("_", "").replace("-", ""))


def read_table(path: Path) -> pa.Table:
    """A whole table; a FormatError names the file that is none."""
    import pyarrow as pa
    import pyarrow.csv

    try:
        with path.open("rb") as stream:
            if path.suffix == ".parquet":
                return read_parquet(stream, str(path))
            table = pyarrow.csv.read_csv(stream)
            names = table.column_names
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"cannot be read: {reason}", path=str(path)) from None
    check_columns(names, str(path))
    return table
