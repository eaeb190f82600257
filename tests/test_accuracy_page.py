"""docs/accuracy.md is written section by section, and not touched where the first table is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ([], "collectives.parquet is not there"),
        (["engines"], "is not there"),
        (["engines", "weather"], "no sections weather; there are collectives, engines"),
    ],
)
def test_without_its_tables_the_page_is_not_touched(tmp_path, sections, said):
    page = tmp_path / "accuracy.md"
    page.write_text("as it was")
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "accuracy"),
            str(tmp_path),
            str(page),
            *sections,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert page.read_text() == "as it was"
