"""Tables of an Nsight Systems export: what an export does not have reads as empty."""

from __future__ import annotations

import gzip
import sqlite3

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.nsys import is_export, open_tables
from chakrakit.sources.tables import _VIRTUAL


@pytest.fixture
def export(tmp_path):
    """An export with one table of three rows."""
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table StringIds (id, value)")
        rows = [(1, "kernel"), (2, None), ("3", "copy")]
        connection.executemany("insert into StringIds values (?, ?)", rows)
    connection.close()
    return path


def test_missing_tables_have_no_rows_and_missing_columns_no_values(export):
    with open_tables(export) as tables:
        assert tables.rows("StringIds", ["value", "color"]) == [
            ("kernel", None),
            (None, None),
            ("copy", None),
        ]
        assert tables.rows("CUPTI_ACTIVITY_KIND_KERNEL", ["start"]) == []
        assert ("StringIds" in tables, "Other" in tables) == (True, False)
        assert (tables.has("StringIds", "id"), tables.has("Other", "id")) == (True, False)


def test_numbers_may_be_written_as_text_and_are_minus_one_where_there_are_none(export):
    with open_tables(export) as tables:
        found = tables.numbers("StringIds", ["id", "start"])
        assert {c: v.tolist() for c, v in found.items()} == {"id": [1, 2, 3], "start": [-1] * 3}


@pytest.mark.parametrize("value", ["x", 1 << 63, float("inf")])
def test_a_cell_that_is_no_number_of_64_bits_is_an_error(export, value):
    with (
        open_tables(export) as tables,
        pytest.raises(FormatError, match="in KERNELS is not a whole number"),
    ):
        tables.whole(value, "KERNELS")


def test_a_gzipped_export_is_read_without_being_unpacked_to_disk(export):
    packed = export.with_name("report.sqlite.gz")
    packed.write_bytes(gzip.compress(export.read_bytes()))
    export.unlink()
    with open_tables(packed) as tables:
        assert len(tables.rows("StringIds", ["id"])) == 3
    assert [p.name for p in packed.parent.iterdir()] == [packed.name]


def test_an_export_is_opened_for_reading_alone(export):
    with open_tables(export) as tables, pytest.raises(FormatError, match="readonly"):
        tables._execute("insert into StringIds values (9, 'x')")


def test_other_sqlite_files_and_other_files_are_refused(tmp_path):
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("create table t (a)")
    connection.commit()
    connection.close()
    assert is_export(other.read_bytes())
    with pytest.raises(FormatError, match="not an export of Nsight Systems"), open_tables(other):
        pass
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(FormatError, match="cannot be read"), open_tables(tmp_path / "text"):
        pass


@pytest.mark.parametrize("between", [" ", "\t", "/* a */ ", " -- a\n"])
def test_tables_whose_rows_a_program_gives_are_left_alone(between: str) -> None:
    """A column may be called `virtualAddress`, as one of Nsight's copies is."""
    plain = "CREATE TABLE copies (start, virtualAddress)"
    assert not _VIRTUAL.match(plain)
    assert _VIRTUAL.match(f"CREATE{between}VIRTUAL TABLE t USING fts5(x)")
