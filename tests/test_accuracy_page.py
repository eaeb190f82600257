"""docs/accuracy.md is written whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_without_its_tables_the_page_is_not_touched(tmp_path):
    page = tmp_path / "accuracy.md"
    page.write_text("as it was")
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "accuracy"), str(tmp_path), str(page)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "collectives.parquet is not there" in done.stderr
    assert page.read_text() == "as it was"
