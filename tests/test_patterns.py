"""Expressions that people and files give: what matches, what is refused, and what ends."""

from __future__ import annotations

import pytest

from chakrakit.patterns import begins_with, compiled, holds


@pytest.mark.parametrize(
    ("pattern", "text", "begins", "inside"),
    [
        ("mm", "aten::mm", False, True),
        ("aten::(mm|bmm)$", "aten::bmm", True, True),
        ("a|b", "xb", False, True),
        ("(?i)MM", "mm_1", True, True),
        (r"(?!.*lm_head).*self", "model.self_attn", True, True),
        (r"(?!.*lm_head).*self", "lm_head.self", False, True),
        (r"(\w+\.?)+!", "model.layers.0.self_attn.q_proj" * 3, False, False),
        ("x", "\ud800", False, False),
    ],
)
def test_what_matches(pattern: str, text: str, begins: bool, inside: bool) -> None:
    assert begins_with(pattern)(text) is begins
    assert holds(pattern)(text) is inside


@pytest.mark.parametrize("pattern", ["mm", "a", r"(?!x)m"])
def test_many_texts_are_matched_as_each_alone(pattern: str) -> None:
    texts = ["mm", "aten::mm", "", "a\ud800", "\ud800", "mm"]
    for matcher in (begins_with(pattern), holds(pattern)):
        assert matcher.each(texts) == [matcher(text) for text in texts]
        assert matcher.each([]) == []


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "unterminated subpattern"),
        ("(" * 3000 + ")" * 3000, "too deep"),
        ("a{99999999999999999999}", "repeats too often"),
        ("a" * 400_001, "400,001 characters"),
        (r"(?!x)(\w+\.?)+!", "for ever"),
        (r"(?!x).*.*.*.*.*!", "for ever"),
    ],
)
def test_what_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        begins_with(pattern)


def test_an_expression_of_a_user_may_be_any_that_python_has() -> None:
    assert compiled(r"(a)\1(?<=a)").match("aa")
