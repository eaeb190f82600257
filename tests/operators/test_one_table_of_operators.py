"""There is one table of operators: no other file of the package lists their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import chakrakit
from chakrakit.operators import ALLOCATIONS, COPIES, INDEXING, TABLED, VIEWS

SOURCE = Path(chakrakit.__file__).parent
HOME = SOURCE / "operators"
LIST = Path(chakrakit.__file__).parent / "replayer" / "runner" / "operators.txt"
REPLAYED = {line.split()[0] for line in LIST.read_text().splitlines() if not line.startswith("#")}
KNOWN = VIEWS | ALLOCATIONS | COPIES | INDEXING | TABLED
KNOWN |= {name.removeprefix("aten::").partition(".")[0] for name in REPLAYED}
FEW = 3
"""A choice between two operators is a rule; three that stand together are a table."""
LIKELY = 0.5
"""Bare names are also words (`copy`, `max`, `view`): a literal is a table if half of its words are operators
and one is no plain word of Python or English."""
_WORDS = """
    abs add alias all angle any arange attention batch_norm bmm cat cauchy ceil chunk clip clone complex conj
    conv1d conv2d copy cos cov cross data diff dist dot dropout embedding empty eq erf exp expand exponential
    eye fill flip floor frac full gather ge gelu geometric gradient group_norm gt hypot index inner inverse
    item layer_norm le lerp linear log log_normal lt mH mT matmul max mean median min mm mode mul narrow ne
    norm normal ones outer pad permute polar pow prod put rand random range ravel real reduce relu repeat
    reshape roll round scatter select sigmoid sign silu sin slice softmax sort split sqrt square squeeze stack
    std std_mean sub sum swapaxes t take tan tanh tile to trace transpose trunc unbind unfold uniform unique
    update var view where zero zeros
"""
WORDS = frozenset(_WORDS.split())

EXCEPTIONS = {
    "replayer/runner": "copied to machines without chakrakit: its list is written from the table, and "
    "its guard says what arguments must be",
    "replayer/compile/indices.py": "which values an argument may have: indices in range, variances positive",
    "sources/capture/observing/known_values.py": "the function that an operator is, on values that are known",
    "sources/capture/observing/recorder.py": "what autograd calls instead for tensors that are not fake",
    "sources/capture/standins/autocast.py": "PyTorch's lists of what autocast casts (ATen/autocast_mode.h)",
    "machines/device/profile.py": "classes of a profile, which are keyed by names of operators",
}
"""Files that may list operators, each with its reason."""


def words(node: ast.AST) -> Iterator[str]:
    """Names in one text of a literal, `aten::` left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (w for w in re.split(r"[^\w:.]+", node.value) if w)


def bare(word: str) -> str:
    """`mm` of `aten::mm.out`."""
    return word.removeprefix("aten::").partition(".")[0]


def is_table(literal: ast.AST) -> bool:
    """Whether three operators or more stand together in a literal."""
    listed = [w for node in ast.walk(literal) for w in words(node)]
    spaced = {w for w in listed if w.startswith("aten::") and bare(w) in KNOWN}
    names = {w for w in listed if bare(w) in KNOWN}
    telling = {w for w in names if w not in WORDS}
    return len(spaced) >= FEW or (
        len(names) >= FEW and bool(telling) and len(names) >= LIKELY * len(set(listed))
    )


def documents(tree: ast.AST) -> set[int]:
    """Docstrings, and texts that stand below a name to explain it."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def may_hold_a_table(text: str) -> bool:
    """Whether three words between quotes are operators, one of them no plain word; most sources have none.

    Where quotes stand in quotes, which words are between them is left to the parser.
    """
    if '\\"' in text or "'\"'" in text:
        return True
    quoted = set(re.split(r"[^\w:.]+", " ".join(re.findall(r'"([^"]*)"', text))))
    names = {w for w in quoted if bare(w) in KNOWN}
    return len(names) >= FEW and any(w.rstrip(".:") not in WORDS for w in names)


def tables(text: str) -> list[int]:
    """The lines of a source at which a literal lists operators."""
    if not may_hold_a_table(text):
        return []
    tree = ast.parse(text)
    prose = documents(tree)
    displays = (ast.Dict, ast.Set, ast.List, ast.Tuple, ast.Constant)
    return sorted(
        {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, displays) and id(node) not in prose and is_table(node)
        }
    )


def excepted(file: Path) -> bool:
    place = file.relative_to(SOURCE).as_posix()
    return any(place == name or place.startswith(f"{name}/") for name in EXCEPTIONS)


def test_no_other_file_lists_operators() -> None:
    second = {
        str(file.relative_to(SOURCE)): lines
        for file in sorted(SOURCE.rglob("*.py"))
        if HOME not in file.parents and not excepted(file) and (lines := tables(file.read_text()))
    }
    assert second == {}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_one(name: str) -> None:
    place = SOURCE / name
    files = place.rglob("*.py") if place.is_dir() else [place]
    assert any(tables(file.read_text()) for file in files)


@pytest.mark.parametrize(
    "text",
    [
        'VIEWS = ("view", "as_strided", "permute")',
        'PRODUCTS = {"aten::mm": 2, "aten::bmm": 3, "aten::addmm": 4}',
        'if name in ("addmm", "baddbmm", "_grouped_mm"): pass',
        'PATTERN = re.compile(r"^aten::(native_layer_norm|_softmax|gelu_backward)$")',
        'LIST = """\\n    addmm baddbmm native_layer_norm\\n""".split()',
        'RULES = {("embedding", "x"): 1, ("nll_loss_forward", "target"): 2, ("gather", "index"): 3}',
        'IN_PLACE = frozenset(f"aten::{n}" for n in ("add_", "mul_", "copy_"))',
    ],
)
def test_the_rule_sees_a_table(text: str) -> None:
    assert tables(text) != []


@pytest.mark.parametrize(
    "text",
    [
        'COLUMNS = ("min", "max", "mean", "median")',
        'op = "aten::mm" if flat else "aten::bmm"',
        '"""Names such as `aten::mm`, `aten::bmm` and `aten::addmm`."""',
        'PLACES = {"view": 1, "index": 2, "where": 3}',
    ],
)
def test_the_rule_passes_what_is_none(text: str) -> None:
    assert tables(text) == []
