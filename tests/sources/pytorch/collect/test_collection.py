"""What the collector does before anything is recorded, and what it says when nothing was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.sources.pytorch.collect.collection import (
    _complete,
    _wait_for,
    collect_command,
    link_collected,
    raw_folder,
)


def test_a_recording_that_never_began_says_so(tmp_path):
    raw_folder(tmp_path / "run").mkdir()
    with pytest.raises(ConfigError, match="no recording"):
        link_collected(tmp_path / "run")


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


def test_times_and_pairs_lie_beside_the_run(tmp_path):
    assert raw_folder(tmp_path / "run") == tmp_path / "run-raw"


def test_ranks_that_write_nothing_in_time_are_named(tmp_path):
    (tmp_path / "card_1.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"ranks \[0, 2\] wrote nothing within 0 s"):
        _wait_for(tmp_path, 3, 0)


@pytest.mark.parametrize(
    ("worlds", "complete"), [([2, 2], True), ([2], False), ([], False), ([1], True)]
)
def test_a_recording_is_complete_when_every_rank_has_its_card(tmp_path, worlds, complete):
    for rank, world in enumerate(worlds):
        (tmp_path / f"card_{rank}.json").write_text(f'{{"world_size": {world}}}')
    assert _complete(tmp_path) is complete


def test_a_program_that_cannot_be_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot run no-such-program: No such file"):
        collect_command(["no-such-program"], tmp_path / "run", "1:2")
