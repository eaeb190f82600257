"""The commands of the documentation run as they stand, in order, in a folder that has what they name."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest

from support.commands import succeeded
from support.paths import DATA, ROOT

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


CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


@pytest.mark.slow
def test_the_commands_that_the_readme_opens_with_run(folder: Path) -> None:
    """With a recording, a script and a model in the places of the reader's own; `view` would not end."""
    pytest.importorskip("torch")
    recording = DATA / "pytorch" / "resnet50_b128" / "kineto_only.json.gz"
    Path("trace.json").write_bytes(gzip.decompress(recording.read_bytes()))
    Path("config.json").write_text(json.dumps(CONFIG))
    opening = BLOCK.search((ROOT / "README.md").read_text())
    assert opening is not None
    lines = [shlex.split(line, comments=True) for line in opening["text"].splitlines()]
    called = [words for program, *words in filter(None, lines) if program == "chakra"]
    assert {words[0] for words in called} > {"analyze", "capture", "simulate", "search", "serve"}
    for words in called:
        if words[0] != "view":
            succeeded(*words)
