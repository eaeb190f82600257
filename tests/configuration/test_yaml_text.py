"""YAML: bounded before anything is made of it."""

import pytest

from chakrakit.configuration import decode_yaml
from chakrakit.errors import ConfigError


def test_scalars_have_types_or_stay_text():
    assert decode_yaml("a: 1\nb: [x, 2.5, true]", "m.yaml") == {"a": 1, "b": ["x", 2.5, True]}
    assert decode_yaml("a: 1", "m.yaml", typed=False) == {"a": "1"}
    assert decode_yaml("", "m.yaml") is None


def test_an_alias_stands_for_its_value():
    assert decode_yaml("a: &one [1]\nb: *one", "m.yaml") == {"a": [1], "b": [1]}


BILLION = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", r"m\.yaml:2: 'a' is there twice; keep one of them"),
        ("a: [1", r"m\.yaml:\d+: not YAML"),
        ("a: &a [*a]", "an alias inside of what it stands for"),
        (BILLION, "more than 200,000 values, aliases followed"),
        ("[" * 65 + "]" * 65, "nested more than 64 levels deep"),
        (f"a: {'9' * 401}", r"m\.yaml:1: a number of 401 characters"),
        ("? [a]\n: 1", "a key that is neither text nor a number"),
        ("a: !!int x", "a value is not of its kind"),
        ("a: !!python/object:os.system x", "not YAML"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(text, problem):
    with pytest.raises(ConfigError, match=problem):
        decode_yaml(text, "m.yaml")


@pytest.mark.parametrize(
    ("text", "value"), [("1e12", 1e12), ("-2.5E-3", -0.0025), ("1.e3", 1000.0), ("3", 3)]
)
def test_numbers_with_an_exponent_need_neither_point_nor_sign(text, value):
    assert decode_yaml(f"x: {text}", "a file") == {"x": value}


@pytest.mark.parametrize("text", ["e12", "1e", "12e4g", "'1e12'", "v1e3"])
def test_text_stays_text(text):
    assert decode_yaml(f"x: {text}", "a file") == {"x": text.strip("'")}
