"""Parquet loses nothing, and a table that is not what it should be is refused before the core sees it."""

from __future__ import annotations

import base64
import contextlib
import gc
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit import (
    EdgeKind,
    Member,
    Metadata,
    Trace,
    TraceBuilder,
    convert,
    open_writer,
    read,
    scan_trace,
    write,
)
from chakrakit.errors import FormatError
from chakrakit.trace.codecs import read_trace
from chakrakit.trace.model import wire


def odd_file() -> bytes:
    """Raw attributes, unknown fields, empty inputs, mixed members, in two nodes."""
    out = wire.frame(wire.field_bytes(1, b"v1"))
    first = wire.field_varint(1, 4) + wire.field_bytes(2, b"x") + wire.field_bytes(8, b"")
    first += wire.field_bytes(9, wire.field_bytes(3, b"t") + wire.field_varint(77, 5))
    for name, member, value in (
        ("foo", Member.int32_val, -1),
        ("comm_size", Member.string_val, "raw"),
        ("stream", Member.int64_val, 2),
        ("is_cpu_op", Member.int32_val, 1),
        ("foo", Member.int64_val, 9),
    ):
        first += wire.field_bytes(10, wire.attribute(name, member, value))
    second = wire.field_varint(1, 5) + wire.field_bytes(5, b"\x04\x09")
    second += wire.field_bytes(10, wire.attribute("foo", Member.sint64_val, 2**50))
    return out + wire.frame(first) + wire.frame(second + wire.field_bytes(55, b"unknown"))


def through_parquet(trace: Trace, tmp_path: Path) -> Trace:
    write(trace, tmp_path / "t.parquet")
    return read(tmp_path / "t.parquet").trace(0)


def test_what_a_table_does_not_say_survives_to_the_byte(tmp_path: Path) -> None:
    trace = read_trace(io.BytesIO(odd_file()))
    write(through_parquet(trace, tmp_path), tmp_path / "again.et")
    assert (tmp_path / "again.et").read_bytes() == odd_file()


@pytest.mark.parametrize("metadata", [Metadata(None), Metadata(b""), Metadata.of("1.0", pid=3)])
def test_no_header_is_not_an_empty_header(tmp_path: Path, metadata: Metadata) -> None:
    for names in ([], ["a"]):
        trace = Trace.from_columns({"name": names}, metadata=metadata)
        assert through_parquet(trace, tmp_path).metadata == metadata
        assert len(through_parquet(trace, tmp_path)) == len(names)


def test_edges_survive_with_kind_form_and_lag(tmp_path: Path) -> None:
    t = TraceBuilder()
    a, b = t.comp("a"), t.comp("b", deps=[0])
    t.edge(a, b, EdgeKind.CALL, lag_ns=11)
    edges = through_parquet(t.build(), tmp_path).edges
    assert edges.kind.tolist() == [EdgeKind.DATA, EdgeKind.CALL]
    assert edges.lag.tolist() == [0, 11]


def test_pieces_with_other_columns_are_one_file(tmp_path: Path) -> None:
    """What shows up after the first piece, or in another type, goes raw and comes back."""
    pieces = [
        Trace.from_columns({"id": [0], "name": ["a"], "foo": [1]}),
        Trace.from_columns({"id": [1], "name": ["b"], "late": ["x"], "stream": [3]}),
        Trace.from_columns({"id": [2], "name": ["c"], "foo": ["text"]}),
        Trace.from_columns({"id": [], "name": []}),
        Trace.from_columns({"id": [3], "name": ["d"], "foo": [4]}),
    ]
    for name in ("t.parquet", "t.et"):
        with open_writer(tmp_path / name) as writer:
            for piece in pieces:
                writer.write(piece)
    found = read(tmp_path / "t.parquet").trace(0)
    assert [n.attributes for n in map(found.node, range(4))] == [
        {"foo": 1},
        {"stream": 3},
        {},
        {"foo": 4},
    ]
    write(found, tmp_path / "again.et")
    assert (tmp_path / "again.et").read_bytes() == (tmp_path / "t.et").read_bytes()


def test_a_table_from_elsewhere_with_ids_is_a_trace(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [5, 6],
            "name": ["a", "b"],
            "comm_size": pa.array([1, None], pa.int16()),
            "note": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    trace = read(tmp_path / "t.parquet").trace(0)
    assert [n.attributes for n in (trace[0], trace[1])] == [
        {"comm_size": 1, "note": "x"},
        {"note": "y"},
    ]


def test_a_table_without_names_is_read_or_refused_in_words(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([4, 9])}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").trace(0).ids.tolist() == [4, 9]

    served = pa.table({"id": pa.array([4, 9]), "arrival_s": [0.0, 1.0]})
    pq.write_table(served, tmp_path / "t.parquet")
    with pytest.raises(FormatError, match=r"no column 'type' or 'name'; .*chakra query"):
        read(tmp_path / "t.parquet").trace(0)

    pq.write_table(pa.table({"optype": ["forward"]}), tmp_path / "t.parquet")
    with pytest.raises(FormatError, match="no column 'id'"):
        read(tmp_path / "t.parquet").trace(0)


@pytest.mark.slow
def test_pieces_are_small_and_together_whole(tmp_path: Path) -> None:
    n = 150_000
    trace = Trace.from_columns({"name": np.arange(n).astype(str), "stream": np.arange(n)})
    write(trace, tmp_path / "t.parquet")
    pieces = list(scan_trace(tmp_path / "t.parquet"))
    assert max(map(len, pieces)) < n
    assert np.array_equal(Trace.concat(pieces).column("stream"), np.arange(n))


def test_columns_that_hold_only_nulls_are_not_read_and_others_of_their_kind_are(
    tmp_path: Path,
) -> None:
    trace = Trace.from_columns({"a": [None, 1], "a.b": [2, None], "empty": pa.array([[], None])})
    again = through_parquet(trace, tmp_path)
    assert again.nodes.column("a").to_pylist() == [None, 1]
    assert again.nodes.column("a.b").to_pylist() == [2, None]
    assert again.nodes.column("empty").to_pylist() == [[], None]
    assert "stream" in pq.read_schema(tmp_path / "t.parquet").names
    assert "stream" not in again.nodes.column_names


def test_row_groups_are_read_as_one_trace(tmp_path: Path) -> None:
    write(Trace.from_columns({"name": ["x", "y", "x", "z"]}), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    notes = pq.read_metadata(tmp_path / "t.parquet").metadata
    kept = table.replace_schema_metadata({k: v for k, v in notes.items() if k != b"ARROW:schema"})
    pq.write_table(kept, tmp_path / "groups.parquet", row_group_size=3)
    assert read(tmp_path / "groups.parquet").trace(0).names.to_pylist() == ["x", "y", "x", "z"]


def test_a_pipe_is_read_too(tmp_path: Path) -> None:
    write(Trace.from_columns({"name": ["a"]}), tmp_path / "t.parquet")

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self._inner = (tmp_path / "t.parquet").open("rb")

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self._inner.readinto(buffer)

    assert len(read_trace(Pipe())) == 1


def rewritten(tmp_path: Path, *, notes: dict[str, Any] | None = None, **columns: Any) -> Path:
    """A good file with some columns or notes replaced; None removes."""
    write(read_trace(io.BytesIO(odd_file())), tmp_path / "good.parquet")
    table = pq.read_table(tmp_path / "good.parquet")
    found = pq.read_metadata(tmp_path / "good.parquet").metadata
    metadata = {k.decode(): v for k, v in found.items() if k.startswith(b"chakra.")}
    for name, value in columns.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        if value is not None:
            table = table.append_column(name, value)
    for name, value in (notes or {}).items():
        metadata.pop(f"chakra.{name}", None)
        if value is not None:
            metadata[f"chakra.{name}"] = (
                value if isinstance(value, bytes) else json.dumps(value).encode()
            )
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "bad.parquet")
    return tmp_path / "bad.parquet"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": None}, "no column 'id'"),
        ({"id": pa.array(["x", "y"])}, "'id' should be uint64"),
        ({"id": pa.array([1, None])}, "'id' has nulls"),
        ({"name": pa.array([1.5, None])}, "'name' has nulls"),
        ({"type": pa.array([2**40, 0])}, "'type' should be int32"),
        ({"data_deps": pa.array([[None], []], pa.list_(pa.uint64()))}, "nulls inside"),
        ({"data_deps": pa.array([1, 2])}, "'data_deps' should be list"),
        ({"_layout": None}, "layout that is not there"),
        ({"_layout": pa.array([0, 99], pa.int32())}, "layout that is not there"),
        ({"_layout": pa.array([0, -1], pa.int32())}, "layout that is not there"),
        ({"_layout": pa.array([0, None], pa.int32())}, "layout that is not there"),
        ({"_layout": pa.array([1, 0], pa.int32())}, "disagree about who has"),
        ({"_layout": pa.array(["x", "y"])}, "'_layout' should be int32"),
        ({"_raw": pa.array([1, 2])}, "'_raw' should be binary"),
        ({"_raw": pa.array([b"", None], pa.binary())}, "none of a node's"),
        ({"_raw": pa.array([b"None", b"None"])}, "none of a node's"),
        ({"_unknown": pa.array([b"[[[", None])}, "none of a node's"),
        ({"_inputs_unknown": pa.array([None, b"9" * 20])}, "none of a node's"),
        ({"foo": None}, "a layout has 'foo', for which there is no column"),
        ({"foo": pa.array(["x", "y"])}, "cannot hold the string of 'foo'"),
        ({"foo": pa.array([None, 1])}, "disagree about who has 'foo'"),
        ({"extra": pa.array([1, 2])}, "disagree about who has 'extra'"),
        ({"edge_lags_ns": pa.array([[1, None], []])}, "nulls inside"),
        ({"notes": {"layouts": [[9, []]]}}, "not a Parquet trace"),
        ({"notes": {"layouts": {"a": 1}}}, "not a Parquet trace"),
        ({"notes": {"layouts": b"\xff"}}, "not a Parquet trace"),
        ({"notes": {"layouts": [[0, [["foo", 200]]]]}}, "has 200 as the member of 'foo'"),
        ({"notes": {"layouts": [[0, [["foo", 9], ["foo", 9]]]]}}, "lists an attribute twice"),
        ({"notes": {"metadata": b"?"}}, "not a Parquet trace"),
        ({"notes": {"metadata": base64.b64encode(b"\xff\xff")}}, "header is damaged"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(
    tmp_path: Path, change: dict, problem: str
) -> None:
    path = rewritten(tmp_path, **change)
    with pytest.raises(FormatError, match=problem) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [4, 12, 200, -20, -4])
def test_a_file_cut_off_anywhere_is_an_error(tmp_path: Path, size: int) -> None:
    good = rewritten(tmp_path)
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:size])
    with pytest.raises(FormatError):
        read(tmp_path / "cut.parquet")


def _unknown_types(data: bytes) -> bool:
    try:
        footer = pq.read_metadata(io.BytesIO(data))
    except OSError:
        return False
    pieces = [footer.row_group(0).column(i) for i in range(footer.num_columns)]
    return any(p.physical_type == "UNKNOWN" for p in pieces)


def test_a_column_of_another_type_than_the_schema_says(tmp_path: Path) -> None:
    """Arrow would end the process over the statistics of such a column."""
    trace = TraceBuilder()
    trace.comp("a")
    path = tmp_path / "t.parquet"
    write(trace.build(), path)
    valid = path.read_bytes()
    field = b"\x15\x0c"  # Thrift: the first field, a number, which is 6 for bytes
    places = [i for i in range(len(valid)) if valid.startswith(field, i)]
    changed = (valid[: i + 1] + b"\x7e" + valid[i + 2 :] for i in places)
    path.write_bytes(next(data for data in changed if _unknown_types(data)))
    with contextlib.suppress(FormatError):
        assert len(read(path)) == 1


@pytest.mark.slow
def test_a_writer_that_is_let_go_of_before_its_end_writes_nothing_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As when a command is ended: the stream is closed by then, and nobody wants to read of it."""
    from chakrakit.trace.codecs.parquet import ParquetWriter

    stream = io.BytesIO()
    writer = ParquetWriter(stream)
    builder = TraceBuilder()
    builder.comp("a", duration_ns=1)
    writer.write(builder.build())
    stream.close()
    del writer
    gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("column", ["name", "pg_name"])
def test_text_that_is_not_utf8_is_refused_since_no_other_format_can_hold_it(
    tmp_path: Path, column: str
) -> None:
    texts = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    pq.write_table(pa.table({"id": [1], "name": ["n"], column: texts}), tmp_path / "t.parquet")
    with pytest.raises(FormatError, match=f"column '{column}' has text that is not UTF-8"):
        read(tmp_path / "t.parquet")


def test_a_table_from_elsewhere_is_the_same_trace_however_it_is_cut(tmp_path: Path) -> None:
    """Only one of its row groups says a shape."""
    table = pa.table({"id": [0, 1], "name": ["a", "b"], "inputs_shapes": ["[[2,2]]", None]})
    encoded = []
    for rows in (1, 2):
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=rows)
        write(read_trace(tmp_path / "t.parquet"), tmp_path / "whole.et")
        convert(tmp_path / "t.parquet", tmp_path / "pieces.et")
        encoded += [(tmp_path / name).read_bytes() for name in ("whole.et", "pieces.et")]
    assert len(set(encoded)) == 1


def test_rows_that_a_damaged_column_no_longer_has_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow ends its pieces in silence where the pages of one column end; then nodes would be lost."""
    pq.write_table(pa.table({"id": [0, 1], "name": ["a", "b"]}), tmp_path / "t.parquet")
    whole = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *a, **k: (b.slice(0, 1) for b in whole(*a, **k))
    )
    with pytest.raises(FormatError, match="says that it has 2 rows, and 1 can be read"):
        list(scan_trace(tmp_path / "t.parquet"))
