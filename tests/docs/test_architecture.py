"""What ARCHITECTURE.md and CONTRIBUTING.md list is there: classes and functions, and targets of make."""

from __future__ import annotations

import re

import pytest

from support.paths import ROOT


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_targets_of_make_are_there(page: str) -> None:
    text, makefile = ((ROOT / name).read_text() for name in (page, "Makefile"))
    targets = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE))
    assert targets
    assert {t for t in targets if not re.search(rf"^{t}:", makefile, re.MULTILINE)} == set()


def test_classes_and_functions_that_are_listed_are_there() -> None:
    """In the lists, a line begins with a class, or calls a function and says what comes of it."""
    sources = (file.read_text() for file in (ROOT / "src" / "chakrakit").rglob("*.py"))
    defined = {name for s in sources for name in re.findall(r"(?:class|def) (\w+)", s)}
    lists = (ROOT / "ARCHITECTURE.md").read_text().partition("### Graph and schedule")[2]
    first = re.findall(r"^    ([A-Z]\w+|[a-z_]+(?=\())(?: {2}|\(| →)", lists, re.MULTILINE)
    results = re.findall(r"→ ([A-Z]\w+)(?=[:; ])", lists)
    assert len(first) > 40
    assert {*first, *results} - defined == set()
