"""The page about findings is made from the table of codes, and is current."""

from __future__ import annotations

from chakrakit.trace.validation import codes
from chakrakit.trace.validation import codes as codes_page
from support.paths import DOCS


def test_every_code_has_one_line_and_repairs_are_marked() -> None:
    lines = codes_page.document().splitlines()
    for code in codes.CODES:
        mark = " (repaired)" if code.repaired else ""
        [line] = [line for line in lines if line.startswith(f"| `{code.name}`")]
        assert line.startswith(f"| `{code.name}`{mark} | {code.severity} | {code.problem} |")


def test_the_page_is_the_table():
    page = DOCS / "validation.md"
    assert page.read_text() == codes_page.document()
