"""Passes as text and back."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.passes.base import split
from chakrakit.passes.base.base import spelled


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "edit"),
        ({"scale": 0.5, "names": ["mm", "a b"]}, 'edit{scale=0.5, names=[mm, "a b"]}'),
        ({"dtypes": {"gemm": "fp8"}, "on": True}, "edit{dtypes={gemm: fp8}, on=true}"),
        ({"names": ['say "hi"\n']}, 'edit{names=["say \\"hi\\"\\U0000000a"]}'),
        ({"window": None}, "edit{window=null}"),
    ],
)
def test_a_pass_as_text(fields, text):
    assert spelled("edit", fields) == text


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("edit", {}),
        (" edit{ scale = 0.5 } ", {"scale": "0.5"}),
        ("edit{add-us=3}", {"add_us": "3"}),
        ("edit{names=[a, 'b, c'], scale=2}", {"names": ["a", "b, c"], "scale": "2"}),
        ('edit{names="a{b"}', {"names": "a{b"}),
        ("edit{dtypes={gemm: fp8}}", {"dtypes": {"gemm": "fp8"}}),
    ],
)
def test_text_as_a_name_and_its_fields(text, fields):
    assert split(text) == ("edit", fields)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "should look like name"),
        ("edit{scale=2", "should look like name"),
        ("edit{scale}", "'scale' should be field=value"),
        ("edit{=2}", "'=2' should be field=value"),
        ("edit{names=[a}", r"\] is missing"),
        ("edit{a=1,,b=2}", "should be field=value"),
        ("edit{names=[a: b: c]}", "cannot read"),
    ],
)
def test_text_that_is_no_pass_is_refused_with_its_option(text, problem):
    with pytest.raises(ConfigError, match=rf"(?s)--pass .*{problem}"):
        split(text)
