"""The observer's JSON as columns: every schema, and the damage PyTorch is known to write."""

from __future__ import annotations

import json

from chakrakit.sources.pytorch.read import read_observer


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


def test_short_triton_strides_are_counted(recording):
    recording.op("triton_poi", 1, 1, reads=(1, 2))
    recording.nodes[0]["inputs"]["strides"] = [[4, 1]]
    assert read_observer(recording.observer_json().encode()).short_strides == 1


def test_deep_nesting_does_not_exhaust_the_stack():
    deep = "[" * 200_000 + "]" * 200_000
    text = f'{{"schema": "1.1.1", "nodes": [{{"id": 2, "name": "a", "inputs": {{"values": {deep}}}}}]}}'
    assert len(read_observer(text.encode())) == 1
