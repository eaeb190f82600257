"""Values inside recordings, which anybody may have written."""

import pytest

from chakrakit.operators import json_list, json_value
from chakrakit.sources.pytorch.read import whole


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (7, 7), ("7", 7), (b"-7", -7), ("7.5", None), (7.0, None), (True, None), (None, None),
        (2**62, 2**62), (2**62 + 1, None), ("9" * 5000, None), ("x", None),
    ],
)  # fmt: skip
def test_whole_numbers_that_fit(said, number):
    assert whole(said) == number


def test_a_smaller_limit():
    assert (whole(5, 5), whole(6, 5), whole(-6, 5)) == (5, None, None)


@pytest.mark.parametrize(
    ("text", "value", "items"),
    [
        ("[1, 2]", [1, 2], [1, 2]),
        ('{"a": 1}', {"a": 1}, []),
        ("", None, []),
        (None, None, []),
        ("[1", None, []),
        ("[" * 100_000, None, []),
    ],
)
def test_json_or_nothing(text, value, items):
    assert json_value(text) == value
    assert json_list(text) == items
