"""The Python of the documentation runs as it stands, in a folder that has what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.paths import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LIVE = ("ck.capture(", "chakrakit.collect(", "Collector(")
"""Blocks around a training program of the reader's; tests of capturing and collecting run such programs."""


def blocks(page: Path) -> list[str]:
    return [b for b in BLOCK.findall(page.read_text()) if not any(word in b for word in LIVE)]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_the_code_of_a_page_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
