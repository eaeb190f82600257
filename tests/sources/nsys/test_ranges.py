"""NVTX ranges: PyTorch's operators among them, and payloads as JSON or bytes."""

import struct

import pytest

from chakrakit.sources.nsys import Payloads, RangeLabel, communication_facts, parse_range_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("my range", RangeLabel("my range", False)),
        ("aten::mm, seq = 5, op_id = 77", RangeLabel("aten::mm", True, 5, 77)),
        (
            "aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]",
            RangeLabel("aten::mm", True, -1, 7, "[[2, 3], [3, 4]]"),
        ),
        ("aten::mm, op_id = 99999999999999999999", RangeLabel("aten::mm", True, -1, -1)),
    ],
)
def test_pytorchs_own_form_of_a_ranges_text(text, found):
    assert parse_range_text(text) == found


LAYOUT = Payloads({(3, 9): [("size", "Q", 0), ("root", "i", 8), ("far", "Q", 100)]})


def test_a_payload_of_bytes_is_read_by_its_layout():
    data = struct.pack("<QQ", 9, 0) + struct.pack("<Qi", 4096, -1)
    assert LAYOUT.facts(3, None, data) == {"size": 4096, "root": -1}


def test_a_payload_as_json_needs_none():
    assert LAYOUT.facts(3, '[{"size": 8}]', None) == {"size": 8}


@pytest.mark.parametrize(("text", "data"), [(None, b"short"), ("[1, 2]", None), ("{", None)])
def test_what_is_no_payload_says_nothing(text, data):
    assert LAYOUT.facts(3, text, data) == {}


def test_nccls_payload_speaks_as_kinetos_records_do():
    said = {"NCCL communicator ID": 12, "Message size [bytes]": 64, "Root": 0, "other": 1}
    assert communication_facts(said) == {
        "Process Group Name": "12",
        "Message bytes": "64",
        "Root": "0",
    }
