"""What the collector does before anything is recorded, and what it says when nothing was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.sources.pytorch import recorder
from chakrakit.sources.pytorch.collect.collection import collect_command, link_collected, raw_folder


@pytest.mark.parametrize(("text", "window"), [("10:12", (10, 12)), (":2", (0, 2)), ("5", (5, 6))])
def test_steps_as_text(text, window):
    assert recorder.parse_steps(text) == window


@pytest.mark.parametrize("text", ["a:b", "5:5", "7:3", "-1:2"])
def test_steps_that_hold_none_are_refused(text):
    with pytest.raises(ValueError, match="steps"):
        recorder.parse_steps(text)


def test_a_recording_that_never_began_says_so(tmp_path):
    raw_folder(tmp_path / "run").mkdir()
    with pytest.raises(ConfigError, match="no recording"):
        link_collected(tmp_path / "run")


def test_the_collector_needs_only_pytorch_and_the_standard_library():
    """It is copied to machines where nothing can be installed."""
    for file in recorder.FOLDER.glob("*.py"):
        source = file.read_text()
        assert "chakrakit" not in source.split('"""', 2)[2]
        assert "import numpy" not in source


def test_a_program_that_fails_is_reported(tmp_path):
    with pytest.raises(ChakraError, match="exit code 3"):
        collect_command([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "run", "1:2")


def test_the_command_line(tmp_path):
    chakra = Path(sys.executable).with_name("chakra")
    program = [sys.executable, "-c", "pass"]
    done = subprocess.run(
        [chakra, "collect", "-o", tmp_path / "run", "--", *program], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no recording" in done.stderr
