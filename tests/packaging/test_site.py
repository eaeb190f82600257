"""The documentation site builds without a warning: every link leads somewhere, every page is in the menu."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

pytest.importorskip("mkdocs", reason="pip install 'chakrakit[docs]'")


@pytest.mark.slow
def test_the_site_builds_strictly_and_holds_every_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "-d",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    commands = (tmp_path / "site/reference/commands/index.html").read_text()
    assert all(f'id="{name}"' in commands for name in ("simulate", "serve", "study", "bundle"))
