"""JSON text of nodes and metadata: valid, and the same messages when read back."""

from __future__ import annotations

import io
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit.core as core
from chakrakit.errors import FormatError
from chakrakit.trace.codecs import et, json_objects
from chakrakit.trace.model import Trace
from support import random_messages as random
from support.examples import examples
from support.oracle import bodies_of, canonical, file_of, message

seeds = st.integers(0, 2**32)


def json_lines(frames: bytes) -> list[dict[str, object]]:
    text = core.json_nodes(np.frombuffer(frames, np.uint8), True)
    found: list[dict[str, object]] = msgspec.json.decode(b"[" + text + b"]")
    assert len(text.split(b",\n")) == len(found), "one object per line"
    return found


def random_nodes(rng: Random, noise: bool) -> list[bytes]:
    nodes = [random.node(rng).SerializeToString(deterministic=True) for _ in range(8)]
    return [random.noisy(rng, n, random.NODE) for n in nodes] if noise else nodes


@given(seeds)
@examples(200)
def test_nodes_come_back_from_json_byte_by_byte(seed: int) -> None:
    nodes = random_nodes(Random(seed), noise=False)
    assert [json_objects.node(o) for o in json_lines(file_of(nodes))] == nodes


@pytest.mark.slow
@given(seeds)
@examples(300)
def test_nodes_in_any_encoding_come_back_as_the_same_messages(seed: int) -> None:
    nodes = random_nodes(Random(seed), noise=True)
    back = [json_objects.node(o) for o in json_lines(file_of(nodes))]
    assert [canonical("Node", b) for b in back] == [canonical("Node", n) for n in nodes]


@pytest.mark.slow
@given(seeds)
@examples(200)
def test_the_whole_way_from_file_to_json_and_back(seed: int) -> None:
    data = file_of([b"", *random_nodes(Random(seed), noise=True)])
    trace: Trace = et.read(io.BufferedReader(io.BytesIO(data)), "test")
    frames = b"".join(bytes(f) for f in et.frames(trace))
    back = [json_objects.node(o) for o in json_lines(frames)]
    assert [canonical("Node", b) for b in back] == (
        [canonical("Node", b) for b in list(bodies_of(data))[1:]]
    )


@given(seeds)
@examples(200)
def test_metadata_comes_back_from_json(seed: int) -> None:
    rng = Random(seed)
    body = random.metadata(rng).SerializeToString(deterministic=True)
    if rng.random() < 0.5:
        body = random.noisy(rng, body, random.METADATA)
    back = json_objects.metadata(msgspec.json.decode(core.json_metadata(body)))
    assert canonical("GlobalMetadata", back) == canonical("GlobalMetadata", body)


def test_what_a_node_looks_like() -> None:
    node = message("Node")(id=3, name='a"b', type=4, data_deps=[1, 2], duration_micros=5)
    node.inputs.values = "[1]"
    node.attr.add(name="comm_size", int64_val=7)
    assert core.json_nodes(np.frombuffer(file_of([node.SerializeToString()]), np.uint8), True) == (
        rb'{"id":3,"name":"a\"b","type":"COMP_NODE","data_deps":[1,2],"duration_micros":5,'
        rb'"inputs":{"values":"[1]"},"attr":[{"name":"comm_size","int64_val":7}]}'
    )


@pytest.mark.parametrize(
    "bad",
    [
        {"id": -1},
        {"id": 2**64},
        {"id": 1, "data_deps": [-4]},
        {"id": 1, "type": 2**31},
        {"id": 1, "type": "NO_SUCH_NODE"},
        {"id": 1, "name": 7},
        {"id": 1, "attr": [{"name": "x", "int32_val": 2**31}]},
        {"id": 1, "attr": [{"name": "x", "no_such_val": 1}]},
        {"id": 1, "attr": [{"name": "x", "bytes_val": "not base64!"}]},
    ],
    ids=str,
)
def test_json_that_is_no_node_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        json_objects.node(bad)
