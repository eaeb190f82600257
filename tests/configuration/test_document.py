"""Files of configuration that would hang, crash or mislead: refused with the line."""

from typing import Literal

import msgspec
import pytest

from chakrakit.configuration import decode_json, decode_yaml, read_document, read_json, with_choices
from chakrakit.errors import ConfigError
from support.bounded import memory_below


def aliases(wide, levels):
    """Each line stands for `wide` times the one before it."""
    lines = ["a0: &a0 [" + ",".join("x" * wide) + "]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * wide)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


def merges(levels):
    """Mappings merged from many copies of the one before."""
    lines = ["a0: &a0 {k: 1, l: 2}"]
    lines += [f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


chain = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200))])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (aliases(9, 12), "more than 200,000 values, aliases followed"),
        (merges(12), "more than 200,000 values, aliases followed"),
        (chain, "nested more than 64 levels deep"),
        ("a: 1\nb: &b [*b]\n", ":2: an alias inside of what it stands for"),
        ("a: 1\nb: " + "[" * 100_000, ":2: nested more than 64 levels deep"),
        ('{"a":' * 100_000, ":1: nested more than 64 levels deep"),
        ("a: 1\na: 2\n", ":2: 'a' is there twice; keep one of them"),
        ("a: 1\n? [1, 2]\n: 3\n", ":2: a key that is neither text nor a number"),
        ("a: " + "9" * 5000, ":1: a number of 5,000 characters"),
        ('a: 1\nb: "x\\0y"', ":2: a character with the code 0"),
        ('{"a": 1,\n"b": "x\\u0000y"}', ":2: a character with the code 0"),
        ("a: 1" + ":0" * 200_000, ":1: a number of 400,001 characters"),
        ("a: 2026-99-99", "a value is not of its kind"),
        ("a: !!int x", "a value is not of its kind"),
        ("a: !!python/name:os.system x", ":1: not YAML: could not determine a constructor"),
        ("a: b\n\tc: [", ":2: not YAML"),
        (b"a: 1\nb: \xff\n", r":2: not text in UTF-8 \(byte 8 is 0xff\)"),
        ("- 1", "should hold a mapping"),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(text, says, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with memory_below(100e6), pytest.raises(ConfigError, match=says):
        read_document(file, "a mapping")


def test_a_file_is_not_read_beyond_its_limit(tmp_path):
    file = tmp_path / "large.yaml"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ConfigError, match="larger than 16 MiB"):
        read_document(file, "a mapping")


def test_aliases_and_merges_of_a_reasonable_size_are_followed(tmp_path):
    text = "base: &base {a: 1, b: [x, y]}\nother: {<<: *base, a: 2}\n"
    assert decode_yaml(text, "here") == {
        "base": {"a": 1, "b": ["x", "y"]},
        "other": {"a": 2, "b": ["x", "y"]},
    }


def test_untyped_values_stay_text():
    assert decode_yaml("a: 1e3\nb: no", "here", typed=False) == {"a": "1e3", "b": "no"}


class Point(msgspec.Struct):
    x: int
    more: object = None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\n\n{x: 1}", r"p.json:3: not a point: JSON is malformed: object keys must be strings"),
        (b'{"x": "1"}', r"p.json: not a point: Expected `int`, got `str` - at `\$.x`"),
        (b'{"x": 1, "more": ' + b"[" * 100_000, "p.json: not a point: nested more than 64 levels"),
        (b'{"x": 1, "more": ' + b"[" * 200 + b"]" * 200 + b"}", "nested more than 64 levels"),
        (b'{"x": 1, "more": "\xff"}', "p.json: not a point"),
        (b'{"x": 1e999}', "p.json: not a point: Number out of range"),
    ],
)
def test_json_is_refused_with_its_line(data, says, tmp_path):
    file = tmp_path / "p.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        read_json(file, Point, "a point")


def test_json_of_a_reasonable_depth_is_read():
    assert decode_json(b'{"x": 1, "more": [[[1]]]}', Point, "here", "a point").more == [[[1]]]


def test_an_error_about_a_value_names_its_line(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("x: 1\nmore:\n  - a\n  - b\n")
    document = read_document(file, "a point")
    assert document.line(("more", 1)) == 4
    told = document.pointed(f"{file}.more[1].c: is wrong")
    assert str(told) == f"{file}:4: more[1].c: is wrong"
    file.write_text("more: 1\nx: yes\n")
    with pytest.raises(ConfigError, match=r"x.yaml:2: x: Expected `int`, got `bool`"):
        read_document(file, "a point").convert(Point)


class _Batches(msgspec.Struct):
    batcher: Literal["fixed", "tokens"] = "fixed"


class _Plan(msgspec.Struct):
    steps: dict[str, list[_Batches]] | None = None


@pytest.mark.parametrize(
    ("word", "said"), [("token", "did you mean 'tokens'?"), ("", "there are fixed, tokens")]
)
def test_a_wrong_word_is_named_with_those_that_are_right(word: str, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert({"steps": {"first": [{"batcher": word}]}}, _Plan)
    assert with_choices(str(raised.value), _Plan).endswith(f"[0].batcher`; {said}")
