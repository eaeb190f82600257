"""Reading and writing .et: the protobuf runtime is the judge of what a file says."""

from __future__ import annotations

import gzip
import io
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import FormatError
from chakrakit.trace.codecs import et
from chakrakit.trace.model import Trace, columns
from support import paths
from support import random_messages as random
from support.examples import examples
from support.oracle import bodies_of, canonical_file, file_of, message

DATA = paths.DATA / "et"
seeds = st.integers(0, 2**32)


def read(data: bytes) -> Trace:
    return et.read(io.BufferedReader(io.BytesIO(data)), "test")


def test_frames_without_content_are_refused_before_they_fill_the_memory() -> None:
    """A zero is an empty frame; so few compressed bytes stand for so many that they would be gigabytes."""
    some = read(bytes(1 << 20))
    assert len(some) == (1 << 20) - 1, "a million are no harm"
    for frame in (b"\x00", b"\x02\x08\x01\x02\x08\x02"):
        with pytest.raises(FormatError, match="too few for an id, a type and a name each"):
            read(frame * (3 << 20))


def scan(data: bytes, rows: int) -> list[Trace]:
    return list(et.scan(io.BufferedReader(io.BytesIO(data)), "test", rows))


def written(*pieces: Trace) -> bytes:
    out = io.BytesIO()
    writer = et.EtWriter(out)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    return out.getvalue()


def canonical(rng: Random, nodes: int) -> bytes:
    bodies = [random.metadata(rng).SerializeToString(deterministic=True)]
    bodies += [random.node(rng).SerializeToString(deterministic=True) for _ in range(nodes)]
    return file_of(bodies)


def noisy(rng: Random, nodes: int) -> bytes:
    head, *rest = bodies_of(canonical(rng, nodes))
    return file_of(
        [
            random.noisy(rng, head, random.METADATA),
            *(random.noisy(rng, b, random.NODE) for b in rest),
        ]
    )


@pytest.mark.slow
@given(seeds)
@examples(300)
def test_canonical_files_come_back_byte_by_byte(seed: int) -> None:
    data = canonical(Random(seed), nodes=12)
    assert written(read(data)) == data


@pytest.mark.slow
@given(seeds)
@examples(500)
def test_any_encoding_comes_back_as_the_same_messages(seed: int) -> None:
    data = noisy(Random(seed), nodes=8)
    assert canonical_file(written(read(data))) == canonical_file(data)


@given(seeds)
@examples(100)
def test_columns_hold_what_protobuf_says(seed: int) -> None:
    data = canonical(Random(seed), nodes=12)
    nodes = [message("Node").FromString(b) for b in list(bodies_of(data))[1:]]
    table = read(data).nodes.to_pydict()
    for field in ("id", "name", "type", "start_time_micros", "duration_micros"):
        assert table[field] == [getattr(n, field) for n in nodes]
    for field in ("ctrl_deps", "data_deps"):
        assert table[field] == [list(getattr(n, field)) for n in nodes]
    for side in ("inputs", "outputs"):
        for field in ("values", "shapes", "types"):
            wanted = [getattr(getattr(n, side), field) or None for n in nodes]
            assert table.get(f"{side}_{field}", [None] * len(nodes)) == wanted
    check_attributes(table, nodes)


def check_attributes(table: dict[str, list[Any]], nodes: list[Any]) -> None:
    """A column's value is that of the row's first attribute of this name that its type can hold."""
    for column, values in table.items():
        name = columns.attribute_name(column)
        if name is None or column in columns.FIELD_TYPES:
            continue
        for value, node in zip(values, nodes, strict=True):
            wanted = [plain(a) for a in node.attr if a.name == name]
            same = [
                value == w or repr(value) == repr(w) for w in wanted
            ]  # a bool equals its integer
            assert value is None or any(same), (column, value, wanted)


def plain(attribute: Any) -> Any:
    member = attribute.WhichOneof("value")
    if member is None:
        return None
    value = getattr(attribute, member)
    return list(value.values) if member.endswith("_list") else value


@pytest.mark.parametrize("member", random.MEMBERS)
def test_a_column_for_every_kind_of_value(member: str) -> None:
    rng = Random(member)
    nodes = [message("Node")(id=i) for i in range(50)]
    for n in nodes[::3]:
        random.set_value(rng, n.attr.add(name="v"), member)
    data = file_of([b"", *(n.SerializeToString() for n in nodes)])
    trace = read(data)
    assert written(trace) == data
    kept = trace.table.column("_raw").to_pylist() if "_raw" in trace.table.column_names else []
    for row, (value, node) in enumerate(
        zip(trace.nodes.column("v").to_pylist(), nodes, strict=True)
    ):
        expected = plain(node.attr[0]) if node.attr else None
        if value is None and expected is not None:
            assert kept[row], "neither in the column nor kept as bytes"
        else:
            assert repr(value) == repr(expected)


def node_bytes(**given: Any) -> bytes:
    found: bytes = message("Node")(**given).SerializeToString()
    return found


HEADERLESS = {
    "an id": node_bytes(id=5, name="x", type=4),
    "no id": node_bytes(name="aten::mm", type=4),
    "a name that happens to be a message": node_bytes(name="embed", type=4),
    "only a name": node_bytes(name="first node"),
}


@pytest.mark.parametrize("first", HEADERLESS.values(), ids=HEADERLESS.keys())
def test_a_file_without_metadata_starts_with_a_node(first: bytes) -> None:
    data = file_of([first, node_bytes(id=6, name="y")])
    trace = read(data)
    assert (len(trace), trace.metadata.raw) == (2, None)
    assert written(trace) == data


HEADERS = {
    "empty": b"",
    "version": b"\x0a\x051.0.0",
    "attribute": b"\x12\x05\x0a\x01k\x48\x07",
    "attribute without a name": b"\x12\x02\x48\x07",
    "unknown fields": b"\x18\x07\xfa\x01\x01z",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_metadata_of_any_shape_is_kept(header: bytes) -> None:
    data = file_of([header, node_bytes(id=6)])
    trace = read(data)
    assert (len(trace), trace.metadata.raw) == (1, header)
    assert written(trace) == data


def test_a_file_with_a_header_alone_is_a_trace_without_nodes() -> None:
    assert len(read(b"\x00")) == 0
    assert written(read(b"\x00")) == b"\x00"


def test_nodes_with_nothing_in_them_are_nodes() -> None:
    assert len(read(b"\x00" * 101)) == 100
    assert written(read(b"\x00" * 101)) == b"\x00" * 101


@pytest.mark.parametrize("name", ["stage.0.et", "stage.4.et", "chakra.0.et.gz"])
def test_files_of_other_tools_come_back_byte_by_byte(name: str) -> None:
    data = (DATA / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    assert written(read(data)) == data


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 7, 65_536])
@given(seed=seeds)
@examples(20)
def test_pieces_hold_what_the_whole_holds(rows: int, seed: int) -> None:
    data = canonical(Random(seed), nodes=23)
    pieces = scan(data, rows)
    assert all(0 < len(p) <= rows for p in pieces)
    assert written(*pieces) == data
    whole, joined = read(data), Trace.concat(pieces)
    assert joined.nodes.select(sorted(joined.nodes.column_names)).to_pydict().__repr__() == (
        whole.nodes.select(sorted(whole.nodes.column_names)).to_pydict().__repr__()
    )
    assert written(joined) == data


def attributes_file(rows: list[dict[str, int]]) -> bytes:
    nodes = []
    for i, row in enumerate(rows):
        node = message("Node")(id=i + 1)
        for name, value in row.items():
            node.attr.add(name=name, int64_val=value)
        nodes.append(node.SerializeToString())
    return file_of([b"", *nodes])


PRESENCE = {
    "nulls at the start": [0] * 13 + [1] * 20,
    "nulls in the middle": [1] * 9 + [0] * 14 + [1] * 9,
    "nulls at the end": [1] * 11 + [0] * 13,
    "alternating": [0, 1] * 17,
    "two and one": [1, 1, 0] * 17,
    "one alone, last": [0] * 31 + [1],
    "one alone, first": [1] + [0] * 31,
    "all": [1] * 33,
}


@pytest.mark.first(44)
@pytest.mark.parametrize("present", PRESENCE.values(), ids=PRESENCE.keys())
@pytest.mark.parametrize("rows", [3, 8, 10, 100])
@pytest.mark.parametrize(
    "kind", ["int64_val", "bool_val", "string_val", "double_list", "string_list"]
)
def test_rows_without_a_value_are_null(kind: str, rows: int, present: list[int]) -> None:
    rng, nodes = Random(kind), []
    for i, there in enumerate(present):
        nodes.append(message("Node")(id=i + 1))
        if there:
            random.set_value(rng, nodes[-1].attr.add(name="v"), kind)
    data = file_of([b"", *(n.SerializeToString() for n in nodes)])
    pieces = scan(data, rows)
    for piece in pieces:
        piece.table.validate(full=True)
        mask = np.array(present[: len(piece)], bool)
        present = present[len(piece) :]
        assert piece.has("v").tolist() == mask.tolist()
        if mask.any():
            assert piece.table.column("v").null_count == int((~mask).sum())
    assert written(*pieces) == data


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 31])
def test_slices_that_start_inside_a_byte_of_the_bitmap(start: int) -> None:
    data = attributes_file([{"v": i} if i % 3 else {} for i in range(64)])
    trace = read(data)
    part = Trace(trace.table.slice(start), trace.layouts, trace.metadata)
    assert written(part) == file_of([b"", *list(bodies_of(data))[1 + start :]])


def test_more_names_than_columns_are_kept() -> None:
    data = attributes_file([{f"n{i}": i, f"n{i + 1}": i} for i in range(1200)])
    trace = read(data)
    assert len(trace.table.column_names) < 600
    assert written(trace) == data


@pytest.mark.slow
def test_a_hundred_thousand_layouts() -> None:
    rng = Random(1)
    names = [f"n{i}" for i in range(40)]
    rows = [dict.fromkeys(rng.sample(names, 6), 1) for _ in range(100_000)]
    data = attributes_file(rows)
    trace = read(data)
    assert len(trace.layouts.items) > 90_000
    assert written(trace) == data
    assert written(*scan(data, 1000)) == data
    edited = trace.with_columns({"n0": None, "extra": np.arange(len(trace))})
    found = [message("Node").FromString(b) for b in list(bodies_of(written(edited)))[1:]]
    assert [sorted(a.name for a in n.attr) for n in found] == (
        [sorted([*(n for n in row if n != "n0"), "extra"]) for row in rows]
    )


# --- damaged files -------------------------------------------------------------------------------


def small_file() -> bytes:
    return canonical(Random(7), nodes=4)


def test_a_file_cut_off_anywhere_is_an_error_with_its_place() -> None:
    data = small_file()
    ends = {len(file_of(list(bodies_of(data))[:n])) for n in range(1, 6)}
    for size in range(len(data)):
        if size in ends:
            assert written(read(data[:size])) == data[:size]
            continue
        with pytest.raises(FormatError) as caught:
            read(data[:size])
        assert size == 0 or 0 <= caught.value.offset <= size


@pytest.mark.parametrize("length", [2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1])
def test_impossible_lengths_are_refused_without_memory(length: int) -> None:
    with pytest.raises(FormatError, match="damaged or not a trace"):
        read(b"\x00" + random.varint(length) + b"abc")
    for field in (2, 4, 8, 10):
        inside = random.varint(field << 3 | 2) + random.varint(length) + b"abc"
        with pytest.raises(FormatError, match="runs past") as caught:
            read(file_of([b"", b"\x08\x01", inside]))
        assert caught.value.offset >= 4


def test_a_length_that_never_ends_is_refused() -> None:
    with pytest.raises(FormatError, match="longer than 10 bytes"):
        read(b"\x00" + b"\xff" * 40)


def test_text_that_is_not_text_is_refused_where_it_is() -> None:
    for bad in (b"\x12\x02\xff\xfe", b"\x42\x04\x0a\x02\xff\xfe", b"\x52\x04\x0a\x02\xff\xfe"):
        data = file_of([b"", b"\x08\x01", bad])
        with pytest.raises(FormatError, match="UTF-8") as caught:
            read(data)
        assert caught.value.offset == data.index(b"\xff")


@pytest.mark.slow
def test_the_error_names_the_node_and_the_byte_across_blocks() -> None:
    data = attributes_file([{"v": i} for i in range(200_000)])
    bad = data + b"\x03\x12\x7f\x00"
    with pytest.raises(FormatError, match="node number 200000") as caught:
        read(bad)
    assert caught.value.offset == len(data) + 2


@pytest.mark.slow
def test_a_name_of_fifty_megabytes() -> None:
    data = file_of([b"", node_bytes(id=1, name="n" * 50_000_000), node_bytes(id=2)])
    trace = read(data)
    assert len(trace.names[0].as_py()) == 50_000_000
    assert written(trace) == data


def test_a_hundred_thousand_dependencies_on_one_node() -> None:
    data = file_of([b"", node_bytes(id=1, data_deps=range(100_000)), node_bytes(id=2)])
    trace = read(data)
    assert len(trace.nodes.column("data_deps")[0]) == 100_000
    assert written(trace) == data


def test_groups_nested_too_deep_are_refused() -> None:
    deep = b"\x5b" * 200 + b"\x5c" * 200
    with pytest.raises(FormatError, match="nested"):
        read(file_of([b"", deep]))


def test_an_empty_file_is_not_a_trace() -> None:
    with pytest.raises(FormatError, match="empty"):
        read(b"")


def test_columns_share_one_table_shape_with_arrow() -> None:
    trace = read(small_file())
    trace.table.validate(full=True)
    assert trace.nodes.num_rows == len(trace) == 4
    assert trace.nodes.column_names == [c for c in trace.table.column_names if c[:1] != "_"]
