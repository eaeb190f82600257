"""The page about attributes and edges is made from the vocabulary's tables, and is current."""

from __future__ import annotations

import subprocess
import sys

from chakrakit import EdgeKind
from chakrakit.trace.model import vocabulary
from chakrakit.trace.model import vocabulary as vocabulary_page
from support.paths import DOCS

PAGE = DOCS / "vocabulary.md"


def test_the_page_is_up_to_date() -> None:
    cure = "run: python -m chakrakit.trace.model.vocabulary > docs/vocabulary.md"
    assert PAGE.read_text() == vocabulary_page.page(), cure


def test_the_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chakrakit.trace.model.vocabulary"], capture_output=True, check=True
    )
    assert done.stdout.decode() == vocabulary_page.page()


def test_every_attribute_and_kind_is_on_it_once() -> None:
    text = PAGE.read_text()
    names = [a.name for a in vocabulary.NODE_ATTRIBUTES]
    assert len(set(names)) == len(names)
    for word in (*names, *(k.name.lower() for k in EdgeKind)):
        assert f"| `{word}` |" in text, word
