"""There is one table of element types: no other file of the package lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import chakrakit
from chakrakit.operators import TYPES

SOURCE = Path(chakrakit.__file__).parent
HOME = SOURCE / "operators"

OTHERS = {
    *("int", "float", "bool", "complex", "double", "long", "short", "char", "byte", "half", "mask"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "complex64", "complex128"),
}
"""Words for types of Python, C, protobuf, Arrow and NumPy; alone they are no table of element types."""
SPELLINGS = {text.lower() for t in TYPES for text in t.spellings}
WORDS = SPELLINGS | {word for text in SPELLINGS for word in text.split()}
ALLOWED = {
    "workloads/models/hugging_face/quantization_methods.py": "formats by the names that files give them"
}
"""Files that name several types to say something else of them, and what."""
FEW = 3
"""A choice between two types is a rule; three that stand together are a table."""


def words(node: ast.AST) -> Iterator[str]:
    """Spellings in one part of a literal: a text, alternatives of a pattern, `torch.bfloat16`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (part.strip("()^$_") for part in node.value.split("|"))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield from [node.attr] if node.value.id in ("torch", "jnp", "ml_dtypes") else []
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg


def literals(tree: ast.AST) -> Iterator[ast.AST]:
    """Whatever can hold a table: displays, match statements, `dict(…)` and patterns; the outermost ones."""
    for node in ast.iter_child_nodes(tree):
        is_dict = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict"
        is_display = isinstance(node, ast.Dict | ast.Set | ast.List | ast.Tuple | ast.Match)
        if is_dict or is_display or (isinstance(node, ast.Constant) and "|" in str(node.value)):
            yield node
        else:
            yield from literals(node)


def may_have_a_table(text: str) -> bool:
    """Whether it names types enough anywhere: most sources do not, and need not be parsed."""
    named = {name.strip("_:") for name in re.findall(r"[\w:<>]+", text.lower())} & WORDS
    return len(named) >= FEW and not named <= OTHERS


def tables(text: str) -> list[tuple[int, list[str]]]:
    """The lines of a source at which three or more element types stand together, and which."""
    if not may_have_a_table(text):
        return []
    found = []
    for literal in literals(ast.parse(text)):
        types = {w.lower() for node in ast.walk(literal) for w in words(node)} & SPELLINGS
        if len(types) >= FEW and types - OTHERS:
            found.append((getattr(literal, "lineno", 0), sorted(types)))
    return found


def test_no_other_file_lists_element_types() -> None:
    second = {
        str(file.relative_to(SOURCE)): lists
        for file in sorted(SOURCE.rglob("*.py"))
        if HOME not in file.parents
        and str(file.relative_to(SOURCE)) not in ALLOWED
        and (lists := tables(file.read_text()))
    }
    assert second == {}


@pytest.mark.parametrize(
    "text",
    [
        'BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}',
        "BYTES = dict(bf16=2, fp16=2, fp32=4)",
        'if dtype in ("c10::Half", "float", "double"): pass',
        "TYPES = {torch.float16: 2, torch.bfloat16: 2, torch.float32: 4}",
        'NUMBERS = {10: "f16", 11: "f32", 12: "f64"}',
        'dtype: Literal["bf16", "fp16", "fp32"] = "bf16"',
        'PATTERN = re.compile(r"_(bf16|fp16|fp32)$")',
        'match dtype:\n    case "bf16" | "fp16":\n        n = 2\n    case "int8":\n        n = 1',
    ],
)
def test_the_rule_sees_a_table(text: str) -> None:
    assert len(tables(text)) >= 1


@pytest.mark.parametrize(
    "text",
    [
        'KINDS = {"int", "float", "bool", "str"}',
        'WIRE = {"double": "<d", "float": "<f", "int32": "<i", "uint64": "<Q"}',
        "HALVES = (torch.float16, torch.bfloat16)",
        'rate = device.peak_rate("bf16")',
    ],
)
def test_the_rule_passes_what_is_none(text: str) -> None:
    assert tables(text) == []
