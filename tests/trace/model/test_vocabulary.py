"""The vocabulary is one table, and the page made from it is current."""

from __future__ import annotations

import subprocess
import sys

from chakrakit import EdgeKind, Member
from chakrakit.trace.model import vocabulary, vocabulary_page
from support.paths import DOCS

PAGE = DOCS / "vocabulary.md"


def test_the_page_is_up_to_date() -> None:
    cure = "run: python -m chakrakit.trace.model.vocabulary_page > docs/vocabulary.md"
    assert PAGE.read_text() == vocabulary_page.page(), cure


def test_the_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chakrakit.trace.model.vocabulary_page"],
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == vocabulary_page.page()


def test_every_attribute_and_kind_is_on_it_once() -> None:
    text = PAGE.read_text()
    names = [a.name for a in vocabulary.NODE_ATTRIBUTES]
    assert len(set(names)) == len(names)
    for word in (*names, *(k.name.lower() for k in EdgeKind)):
        assert f"| `{word}` |" in text, word


def test_members_other_tools_read_are_written() -> None:
    wanted = {
        "comm_size": Member.int64_val,
        "tensor_size": Member.uint64_val,
        "comm_tag": Member.int32_val,
        "is_cpu_op": Member.bool_val,
    }
    assert {n: vocabulary.by_name()[n].member for n in wanted} == wanted
