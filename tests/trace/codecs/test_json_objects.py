"""Nodes as JSON objects: ours and protobuf's own, and nothing guessed."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.codecs.json_objects import attribute, metadata, node


def test_both_spellings_give_the_same_message():
    ours = {"id": 7, "name": "a", "type": "COMP_NODE", "data_deps": [1, 2], "duration_micros": 5}
    theirs = {"id": "7", "name": "a", "type": 4, "dataDeps": ["1", "2"], "durationMicros": "5"}
    assert node(ours) == node(theirs)


def test_lists_may_be_wrapped():
    plain = {"name": "x", "int64_list": [1, 2]}
    assert attribute(plain) == attribute({"name": "x", "int64List": {"values": ["1", "2"]}})


def test_a_header_has_a_version_and_attributes():
    assert metadata({"version": "1"}) == b"\x0a\x011"
    assert metadata({}) == b""


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        ({"nmae": "a"}, "'nmae' has no place in a node"),
        ({"id": -1}, r"id is -1, not in 0\.\."),
        ({"id": 1.5}, "id should be an integer, not 1.5"),
        ({"id": True}, "id should be an integer, not True"),
        ({"type": "COMP"}, "type should be an integer, not 'COMP'"),
        ({"data_deps": 3}, "data_deps should be a list, not 3"),
        ({"name": 3}, "should be a string, not 3"),
        ({"attr": [{"name": "x", "int8_val": 1}]}, "'int8_val' is not a kind of value"),
        ({"attr": [{"name": "x", "uint32_val": -1}]}, "attribute 'x' is -1"),
        ({"attr": [{"name": "x", "bytes_val": "?"}]}, "is not base64"),
        ({"attr": [{"name": "x", "bool_val": 1}]}, "should be true or false, not 1"),
        ({"inputs": {"value": "x"}}, "'value' has no place in inputs or outputs"),
        ([], "a node should be an object"),
    ],
)
def test_what_is_not_known_or_does_not_fit_is_named(obj, problem):
    with pytest.raises(FormatError, match=problem):
        node(obj)


def test_a_huge_value_is_shown_by_its_start():
    with pytest.raises(FormatError, match="a huge number"):
        node({"id": 10**4000})
