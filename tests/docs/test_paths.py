"""Files that the pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.paths import ROOT

PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = r"(?<![\w/])[a-z][\w.-]*(?:/[a-z0-9_.-]+)+\.(?:py|cpp|hpp|cu|md|json|yaml)\b"
"""In small letters and with a folder in it: NAME.yaml, DIR/run.py and names alone stand for others."""
BASES = (ROOT, ROOT / "src", ROOT / "src" / "chakrakit", ROOT / "docs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).name)
def test_files_that_a_page_names_exist(page: str | Path) -> None:
    named = set(re.findall(PATH, (ROOT / page).read_text()))
    assert [n for n in sorted(named) if not found(n)] == []


def found(name: str) -> bool:
    return any((base / name).exists() or list(base.glob(f"*/{name}")) for base in BASES)
