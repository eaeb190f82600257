"""docs/accuracy.md is written section by section, says of which commit each is, and loses none in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "benchmarks" / "accuracy"
sys.path.append(str(GENERATOR))

from page import Page, Stamp  # noqa: E402
from section import CLAIMS, measured  # noqa: E402

OLD, NEW = Stamp("0ld", "2026-01-01"), Stamp("n3w", "2026-02-02")


def test_a_page_of_one_run_says_so(tmp_path):
    page = Page(["A", "B"])
    page.put("B", "b", NEW)
    page.put("A", "a", NEW)
    page.write(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "All sections were measured in one run, at n3w (2026-02-02)." in text
    assert text.index("## A\n\n<!-- measured at n3w") < text.index("## B\n")


def test_sections_of_other_runs_and_lost_ones_are_named(tmp_path):
    """One section is replaced, one stays as it was, one never was, and one has no place any more."""
    path = tmp_path / "page.md"
    before = Page(["A", "B", "gone"])
    for title in before.titles:
        before.put(title, title.lower(), OLD)
    before.write(path)
    page = Page.read(path, ["A", "B", "C"])
    page.put("A", "better", NEW)
    page.lose("B", "no table", NEW)
    page.write(path)
    assert (
        "Sections were measured in one run, at n3w (2026-02-02). Not measured: B, C."
        in path.read_text()
    )
    page = Page.read(path, ["A", "B", "C"])
    page.put("B", "b", OLD)
    page.write(path)
    text = " ".join(path.read_text().split())
    assert "not all measured in one run: at n3w (2026-02-02): “A”, at 0ld (2026-01-01): “B”" in text
    assert "Not measured: C." in text
    assert "better" in text
    assert "gone" not in text


def test_a_section_that_fails_is_the_reason_why(tmp_path, capfd):
    result = measured("engines", tmp_path)
    assert "is not there; DATA should be the folder of truth tables" in result.why
    assert str(tmp_path) not in result.why
    assert "NOT MEASURED" in result.line
    assert "MissingDataError" in capfd.readouterr().err


def test_the_page_has_every_section():
    """A claim that was never measured, or whose section was lost, is one that nobody would miss."""
    text = (ROOT / "docs" / "accuracy.md").read_text()
    lines = {
        line for file in CLAIMS for line in (GENERATOR / f"{file}.py").read_text().splitlines()
    }
    titles = [line.partition('"')[2].rstrip('"') for line in lines if line.startswith("TITLE = ")]
    assert len(titles) == len(CLAIMS)
    assert [t for t in titles if f"## {t}\n" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (["collectives", "engines"], "2 of 2 sections were not measured"),
        (["engines", "weather"], "no sections weather; there are collectives, engines"),
    ],
)
def test_without_its_tables_the_page_is_not_touched(tmp_path, sections, said, jobs):
    page = tmp_path / "accuracy.md"
    page.write_text("as it was")
    done = subprocess.run(
        [sys.executable, str(GENERATOR), str(tmp_path), str(page), *sections],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JOBS": jobs},
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert page.read_text() == "as it was"
