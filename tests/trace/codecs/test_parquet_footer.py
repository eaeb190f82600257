"""The footer's nulls are those that Arrow finds, and a damaged footer has none."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit import TraceBuilder, read, write
from chakrakit.errors import FormatError
from chakrakit.trace.codecs.parquet_footer import FooterColumn, _varint, null_columns


def written(tmp_path: Path) -> bytes:
    builder = TraceBuilder()
    builder.comp("a", duration_ns=3)
    builder.comp("b", deps=[0])
    write(builder.build(), tmp_path / "t.parquet")
    return (tmp_path / "t.parquet").read_bytes()


def of_schema(file: pq.ParquetFile) -> list[FooterColumn]:
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    return [FooterColumn(c.name if c.path == c.name else None, c.physical_type) for c in leaves]


def by_arrow(file: pq.ParquetFile) -> set[str]:
    """Only for whole files."""
    groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
    return {
        column.name
        for i, column in enumerate(of_schema(file))
        if column.name is not None
        and all(
            (said := g.column(i).statistics) is not None
            and said.has_null_count
            and said.null_count == g.num_rows
            for g in groups
        )
    }


def check_same(data: bytes) -> set[str]:
    file = pq.ParquetFile(io.BytesIO(data))
    null = null_columns(io.BytesIO(data), of_schema(file))
    assert null == by_arrow(file)
    return null


def test_a_written_trace_has_the_nulls_that_arrow_finds(tmp_path: Path) -> None:
    null = check_same(written(tmp_path))
    assert "stream" in null
    assert not null & {"id", "name", "duration_micros"}


def table() -> pa.Table:
    return pa.table(
        {
            "id": range(300),
            "none": pa.nulls(300, pa.int64()),
            "half": [None] * 150 + [1] * 150,
            "text": ["x" * i for i in range(300)],
            "lists": [[1], None, []] * 100,
            "nested": pa.nulls(300, pa.struct([("a.b", pa.float64())])),
            "a.b": pa.nulls(300, pa.bool_()),
            "übung": pa.nulls(300, pa.string()),
        }
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 7},
        {"write_statistics": False},
        {"write_statistics": ["none"]},
        {"write_page_index": True, "row_group_size": 150},
        {"version": "1.0", "data_page_version": "2.0", "store_decimal_as_integer": True},
        {"sorting_columns": [pq.SortingColumn(0)], "use_dictionary": False},
    ],
)
def test_tables_of_every_form_have_the_nulls_that_arrow_finds(options: dict) -> None:
    stream = io.BytesIO()
    pq.write_table(table(), stream, **options)
    null = check_same(stream.getvalue())
    assert ("none" in null) == (options.get("write_statistics", True) is not False)
    assert "half" not in null


def test_without_a_row_group_every_column_is_null() -> None:
    stream = io.BytesIO()
    pq.ParquetWriter(stream, table().schema).close()
    assert check_same(stream.getvalue()) == {"id", "none", "half", "text", "a.b", "übung"}


def footer_at(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def test_a_size_of_texts_that_numbers_have_is_an_error(tmp_path: Path) -> None:
    """Arrow ends the process when it is asked for such a column's statistics, and raises when it reads it."""
    data = written(tmp_path)
    start = footer_at(data)
    column = data.index(b"\x19\x18\x02id", start)  # its path, in its metadata
    sizes = (
        data.index(b"\x3c\x29", column) + 1
    )  # field 16, a struct that begins with its second field
    assert sizes < column + 100
    footer = data[start:sizes] + b"\x16\x02\x19" + data[sizes + 1 : -8]  # and now with its first
    path = tmp_path / "changed.parquet"
    path.write_bytes(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FormatError, match="does not support INT64"):
        read(path)


def test_damaged_footers_have_no_nulls_or_some_and_raise_nothing(tmp_path: Path) -> None:
    data = written(tmp_path)
    columns = of_schema(pq.ParquetFile(io.BytesIO(data)))
    start = footer_at(data)
    names = {column.name for column in columns}
    for seed in range(300):
        rng = Random(seed)
        changed = bytearray(data)
        for _ in range(rng.choice((1, 3, 30))):
            changed[rng.randrange(start, len(data) - 8)] = rng.randrange(256)
        assert null_columns(io.BytesIO(changed), columns) <= names


def framed(footer: bytes) -> io.BytesIO:
    return io.BytesIO(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_random_bytes_as_a_footer_have_no_nulls() -> None:
    columns = [FooterColumn("a", "INT32"), FooterColumn("b", "DOUBLE")]
    for seed in range(300):
        rng = Random(seed)
        assert null_columns(framed(rng.randbytes(rng.randrange(200))), columns) == set()


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x00",  # no row groups
        b"\x49\xfc" + b"\xff" * 9 + b"\x01",  # 2**64 of them
        b"\x49\xfc" + b"\xff" * 100,
        b"\x18\xff\xff\xff\xff\x0f",  # text longer than the footer
        b"\x1c" * 100_000,  # structs in structs
        b"\x19" * 100_000,  # lists in lists
        b"\x49\x1c" + b"\x19" * 100_000,  # lists where columns should be
        b"\x1b\x01\x88\x00\x00",  # a map
        b"\x49\x15\x02",  # numbers for row groups
    ],
)
def test_what_cannot_be_a_footer_has_no_nulls(footer: bytes) -> None:
    assert null_columns(framed(footer), [FooterColumn("a", "INT32")]) == set()


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"PAR1\x00\x00\x00\x00PARE"]
)
def test_a_file_without_a_footer_has_no_nulls(data: bytes) -> None:
    assert null_columns(io.BytesIO(data), [FooterColumn("a", "INT32")]) == set()


@pytest.mark.parametrize("number", [0, 1, 127, 128, 129, 300, 2**21, 2**40 + 5])
def test_a_whole_number_has_seven_bits_per_byte(number: int) -> None:
    data, rest = bytearray(), number
    while rest > 127:
        data.append(rest & 127 | 128)
        rest >>= 7
    data.append(rest)
    assert _varint(bytes(data) + b"x", 0) == (number, len(data))
