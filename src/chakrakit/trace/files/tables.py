"""Tables in Parquet files, and what must hold of any table's columns before one is looked up by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

from chakrakit.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa


def read_parquet(source: IO[Any], path: str, what: str = "Parquet file") -> pa.Table:
    """A whole table, checked; a FormatError names the file and says what it should have been."""
    # Only here: commands that read no table start without Arrow.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(source).read()
        table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"not the {what} it should be: {reason}", path=path) from None
    check_columns(names, path)
    return table


def check_columns(names: Iterable[str], path: str) -> None:
    """Refuse a table in which two columns have the same name: either could be meant."""
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        raise FormatError(f"column {name!r} is there {times} times; keep one of them", path=path)
