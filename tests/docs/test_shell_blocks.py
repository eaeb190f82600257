"""The commands of the documentation run as they stand, in order, in a folder that has what they name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.commands import succeeded
from support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```sh\n(?P<text>.*?)^```", re.M | re.S
)
UNFENCED = re.compile(r"^ {4}(?:\$ )?chakra ", re.M)
NEEDS = {"capture": "torch", "query": "duckdb"}
"""Command → the package that it cannot do without."""


def commands(page: Path) -> list[list[str]]:
    """The words of every command that the page asks to be run."""
    found = []
    for block in BLOCK.finditer(page.read_text()):
        if block["reason"] is None:
            lines = block["text"].replace("\\\n", " ").splitlines()
            found += [shlex.split(line, comments=True) for line in lines]
    return [words for words in found if words]


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.stem)
def test_the_commands_of_a_page_run(page: Path, folder: Path) -> None:
    for program, *words in commands(page):
        assert program == "chakra", (
            f"{program}: say why it is not run, in a comment before the block"
        )
        if words[0] in NEEDS:
            pytest.importorskip(NEEDS[words[0]])
        succeeded(*words)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_command_stands_in_a_block_that_is_run_or_says_why_not(page: Path) -> None:
    assert not UNFENCED.search(page.read_text()), "put it into a ```sh block"
