"""Both readers: every schema, exact nanoseconds, and the damage PyTorch is known to write."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read.files import read_bytes
from chakrakit.sources.pytorch.read.kineto import Kind, read_kineto
from chakrakit.sources.pytorch.read.observer import read_observer


def _kineto(*events: str) -> bytes:
    return ('{"traceEvents": [' + ",".join(events) + "]}").encode()


def _op(name: str, ts: str, dur: str) -> str:
    return (
        f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, '
        f'"dur": {dur}, "args": {{"Record function id": 3}}}}'
    )


@pytest.mark.parametrize(
    ("ts", "dur", "start", "end"),
    [
        ("3857487213690.712", "0.001", 3857487213690712, 3857487213690713),
        ("3857487213690", "5", 3857487213690000, 3857487213695000),
        ("10.5", "0.0004", 10500, 10500),
        ("10.0006", "1", 10001, 11001),
        ("1.5e3", "2", 1500000, 1502000),
    ],
)
def test_times_are_exact_to_the_nanosecond(ts, dur, start, end):
    """Microseconds with decimals go to integers digit by digit; a double would lose the last."""
    k = read_kineto(_kineto(_op("a", ts, dur)))
    assert (int(k.start[0]), int(k.end[0])) == (start, end)


def test_old_flat_nodes_are_read_by_their_keys():
    """Schema 1.0.1 spreads over the node what later ones put into inputs, outputs and attrs."""
    node = {
        "name": "aten::add",
        "id": 5,
        "rf_id": 8,
        "parent": 2,
        "fw_parent": 0,
        "seq_id": 4,
        "scope": 0,
        "tid": 1,
        "fw_tid": 0,
        "op_schema": "s",
        "inputs": [[1, 2, 0, 4, 4, "cpu"]],
        "input_shapes": [[4]],
        "input_types": ["Tensor(float)"],
        "outputs": [],
        "output_shapes": [],
        "output_types": [],
    }
    o = read_observer(json.dumps({"schema": "1.0.1", "pid": 1, "nodes": [node]}).encode())
    assert (o.id[0], o.parent[0], o.rf_id[0], o.seq_id[0]) == (5, 2, 8, 4)
    assert o.texts[o.text_columns["in_shapes"][0]] == "[[4]]"
    assert (o.tensors.storage[0], o.tensors.elements[0]) == (2, 4)


def test_an_unknown_newer_schema_is_read_and_said():
    o = read_observer(b'{"schema": "2.7.0-chakra.9", "nodes": [{"id": 2, "name": "x"}]}')
    assert len(o) == 1
    assert not o.known_schema


def test_unescaped_quotes_and_backslashes_in_names_are_repaired_and_counted():
    """`record_function('say "hi" \\\\ x')` makes PyTorch write JSON that no parser takes."""
    text = (
        '{"schema": "1.1.1", "nodes": ['
        '{"id": 2, "name": "say "hi" \\ x", "ctrl_deps": 1, "inputs": {"values": []}},'
        '{"id": 3, "name": "aten::add", "ctrl_deps": 2}]}'
    )
    o = read_observer(text.encode())
    assert [o.texts[n] for n in o.name] == ['say "hi" \\ x', "aten::add"]
    assert (o.repaired, o.dropped) == (1, 0)


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9, 0.99])
def test_a_file_cut_off_in_the_middle_gives_what_it_holds(recording, cut):
    for i in range(50):
        recording.op("aten::add", 10 * i, 5)
    for text, read in (
        (recording.observer_json(), read_observer),
        (recording.kineto_json(), read_kineto),
    ):
        found = read(text[: int(len(text) * cut)].encode())
        assert found.truncated
        assert 0 < len(found) <= 51


def test_a_gzip_stream_cut_off_gives_what_it_holds(tmp_path):
    data = gzip.compress(b"x" * 100_000)
    (tmp_path / "a.json.gz").write_bytes(data[: len(data) - 20])
    assert 0 < len(read_bytes(tmp_path / "a.json.gz")) < 100_000


def test_something_else_is_one_clear_error():
    with pytest.raises(FormatError, match="not an execution trace"):
        read_observer(b"hello", "some.json")
    with pytest.raises(FormatError, match="not a Kineto trace"):
        read_kineto(b'{"a": ]')


def test_categories_become_kinds_old_spelling_too():
    events = [_op("a", "1", "1").replace("cpu_op", c) for c in ("cpu_op", "Operator", "gpu_memset")]
    assert read_kineto(_kineto(*events)).kind.tolist() == [
        Kind.OPERATOR,
        Kind.OPERATOR,
        Kind.MEMSET,
    ]


def test_short_triton_strides_are_counted(recording):
    recording.op("triton_poi", 1, 1, reads=(1, 2))
    recording.nodes[0]["inputs"]["strides"] = [[4, 1]]
    assert read_observer(recording.observer_json().encode()).short_strides == 1


def test_unicode_escapes_in_names():
    k = read_kineto(_kineto(_op("\\u00e9\\ud83d\\ude00\\n", "1", "1")))
    assert k.texts[k.name[0]] == "é😀\n"


@given(st.data())
def test_any_damage_is_read_or_refused_but_never_crashes(data):
    """Files are untrusted: whatever bytes they hold, a reader answers or says what is wrong."""
    good = (
        b'{"schema": "1.1.1", "pid": 4, "nodes": [{"id": 2, "name": "a", "ctrl_deps": 1, "inputs": '
        b'{"values": [[1,2,0,4,4,"cpu"],[[3,4,0,4,4,"cpu"]],"<None>"], "shapes": [[4]]}, "attrs": '
        b'[{"name": "rf_id", "type": "uint64", "value": 7}]}], "traceEvents": [{"ph": "X", "cat": '
        b'"cpu_op", "name": "a", "ts": 1.5, "dur": 2, "args": {"External id": 1}}]}'
    )
    text = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(b'"[]{},:\\ 0-9eE.xn\x00\xff'))
    cut = data.draw(st.integers(0, len(text)))
    for read in (read_observer, read_kineto):
        try:
            found = read(bytes(text[:cut]))
        except FormatError:
            continue
        assert len(found) <= 3


def test_deep_nesting_does_not_exhaust_the_stack():
    deep = "[" * 200_000 + "]" * 200_000
    text = f'{{"schema": "1.1.1", "nodes": [{{"id": 2, "name": "a", "inputs": {{"values": {deep}}}}}]}}'
    assert len(read_observer(text.encode())) == 1
