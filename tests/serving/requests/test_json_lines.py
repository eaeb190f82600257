"""JSON lines of requests, known by the names of their fields."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import FormatError
from chakrakit.serving.requests.files import read_json_lines


def read(*rows: dict[str, object]):
    return read_json_lines("\n".join(json.dumps(row) for row in rows).encode(), "r.jsonl")


def test_turns_of_a_session_follow_each_other() -> None:
    """The second line of session 7 comes 250 ms after the first has ended; another session has its time."""
    plain = {"prompt": 1, "output": 1}
    stream = read(
        {"at": 1, "session_id": 7, **plain},
        {"at": 2, "session_id": 8, **plain},
        {"at": 3, "session_id": 7, "delay": 250, **plain},
    )
    assert stream.after.tolist() == [-1, -1, 0]
    assert stream.arrival_ps.tolist() == [10**12, 2 * 10**12, 25 * 10**10]


def test_tokens_are_named_sixteen_at_a_time_by_all_before_them() -> None:
    """The first sixteen are shared; the second sixteen follow others and are not."""
    shared, tail = list(range(16)), list(range(100, 116))
    stream = read(
        {"at": 0, "prompt_token_ids": [*shared, *tail, 1], "output": 1},
        {"at": 0, "prompt_token_ids": [*shared, *shared], "output": 1},
        {"at": 0, "prompt_token_ids": [*tail, *tail], "output": 1},
    )
    first, second, third = stream.ids.reshape(3, 2).tolist()
    assert stream.prompt.tolist() == [33, 32, 32]
    assert first[0] == second[0] != third[0]
    assert len({first[1], second[1], third[1]}) == 3
    assert stream.unit == 16


def test_dates_are_counted_from_the_first() -> None:
    day = 1_700_000_000
    stream = read({"at": day, "prompt": 1, "output": 1}, {"at": day + 2, "prompt": 1, "output": 1})
    assert stream.arrival_ps.tolist() == [0, 2 * 10**12]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"at": 0, "prompt": True, "output": 1}, "line 1: prompt is True, not a number"),
        ({"at": 0, "prompt": 1, "output": 1, "priority": "x"}, "line 1: priority is 'x'"),
        ({"at": 0, "prompt_token_ids": [2**40], "output": 1}, "token ids must be whole numbers"),
        ({"sub_requests": []}, "line 1: sub_requests must be a list of requests"),
    ],
)
def test_a_field_that_cannot_be_is_named_with_its_line(row: dict[str, object], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read(row)


def test_names_of_different_sizes_are_not_mixed() -> None:
    plain = {"at": 0, "prompt": 1, "output": 1}
    with pytest.raises(FormatError, match="line 2: names of 16 and of 512 tokens are mixed"):
        read({**plain, "hash_ids": [1]}, {**plain, "block_ids": [1]})


@pytest.mark.parametrize(
    ("data", "said"), [(b"\n\n", "has no requests"), (b"[1]", "line 1 should be an object")]
)
def test_lines_that_are_no_requests(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read_json_lines(data, "r.jsonl")
