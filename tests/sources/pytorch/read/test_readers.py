"""Both readers on damaged files: what a file still holds, or one clear error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read import read_kineto, read_observer


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
