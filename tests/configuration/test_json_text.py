"""JSON, typed, with the line an error is about."""

import msgspec
import pytest

from chakrakit.configuration import decode_json
from chakrakit.errors import ConfigError


class Point(msgspec.Struct):
    x: int


def test_text_becomes_the_type_that_is_asked_for():
    assert decode_json(b'{"x": 3}', Point, "p.json", "a point") == Point(3)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"x":\n oops}', r"p\.json:2: not a point"),
        (b'{"x": "3"}', r"p\.json: not a point: Expected `int`, got `str` - at `\$\.x`"),
        (b"[" * 65 + b"]" * 65, r"p\.json: not a point: nested more than 64 levels deep"),
        (b"[" * 100_000, "nested more than 64 levels deep"),
        (b'"\xff"', r"p\.json: not a point"),
    ],
)
def test_what_is_none_is_refused(data, problem):
    with pytest.raises(ConfigError, match=problem):
        decode_json(data, Point, "p.json", "a point")


def test_64_levels_are_deep_enough():
    assert decode_json(b"[" * 64 + b"]" * 64, list, "p.json", "a list")
