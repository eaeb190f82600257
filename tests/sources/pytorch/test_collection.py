"""What the collector does before anything is recorded, and what it says when nothing was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.sources.pytorch import Collection, collect_command
from chakrakit.sources.pytorch.collection import (
    _wait_for,
    link_collected,
    raw_folder,
    time_recordings,
)


def test_a_recording_that_never_began_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing was recorded.*give earlier --steps"):
        link_collected(tmp_path)


def test_a_program_that_fails_is_reported(tmp_path):
    with pytest.raises(ChakraError, match="exit code 3"):
        collect_command([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "run", "1:2")


@pytest.mark.slow
def test_the_command_line(tmp_path):
    chakra = Path(sys.executable).with_name("chakra")
    program = [sys.executable, "-c", "pass"]
    done = subprocess.run(
        [chakra, "collect", "-o", tmp_path / "run", "--", *program], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "nothing was recorded" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("steps", "two_pass", "cure"),
    [("0:2", None, "1:3"), ("0:1", False, "1:2"), ("2:4", True, "3:5")],
)
def test_steps_that_are_over_before_they_can_be_recorded(tmp_path, steps, two_pass, cure):
    with pytest.raises(ConfigError, match=f"step 0 is over .* give --steps {cure} or later"):
        collect_command(["no-such-program"], tmp_path / "run", steps, two_pass=two_pass)


def test_files_of_others_in_the_raw_folder_stay(tmp_path):
    """Even one stops the command, before the program has run for hours."""
    raw = raw_folder(tmp_path / "run")
    raw.mkdir()
    (raw / "card_0.json").write_text("{}")
    (raw / "notes.txt").write_text("mine")
    with pytest.raises(ChakraError, match=r"has other things in it \(notes.txt\)"):
        collect_command(["no-such-program"], tmp_path / "run", "1:2")
    with (
        pytest.raises(ChakraError, match=r"has other things in it \(notes.txt\)"),
        Collection(tmp_path / "run"),
    ):
        pass
    assert sorted(f.name for f in raw.iterdir()) == ["card_0.json", "notes.txt"]


def _writes(**files):
    """A program that leaves these files where its recording belongs."""
    return [
        sys.executable,
        "-c",
        "import json, os, pathlib, tempfile\n"
        "folder = pathlib.Path(json.loads(os.environ['CHAKRA_COLLECT'])['directory'])\n"
        "open(tempfile.mkstemp()[1], 'w').close()\n"
        f"for name, text in {files!r}.items(): (folder / name).write_text(text)",
    ]


def test_a_recording_that_cannot_be_linked_is_kept_and_replaces_the_one_before(tmp_path):
    raw = raw_folder(tmp_path / "run")
    raw.mkdir()
    (raw / "kineto_7.json.gz").write_text("of another program")
    program = _writes(**{"kineto_0.json.gz": "damaged"})
    with pytest.raises(ChakraError, match=r"run-raw/kineto_0.*the recording is kept in .*run-raw"):
        collect_command(program, tmp_path / "run", "1:2")
    assert [f.name for f in tmp_path.iterdir()] == ["run-raw"]
    assert [f.name for f in raw.iterdir()] == ["kineto_0.json.gz"]


def test_temporary_files_of_the_program_go_with_the_command(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    program = _writes(**{"kineto_0.json.gz": json.dumps({"traceEvents": [event]})})
    report = collect_command(program, tmp_path / "run", "1:2")
    assert report.ranks[0].files == [str(tmp_path / "run-raw" / "kineto_0.json.gz")]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["run", "run-raw", "tmp"]
    assert not list((tmp_path / "tmp").iterdir())


def test_ranks_that_write_nothing_in_time_are_named(tmp_path):
    (tmp_path / "card_1.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"ranks \[0, 2\] wrote nothing within 0 s"):
        _wait_for(tmp_path, 3, 0)


def test_a_program_that_cannot_be_run_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot run no-such-program: No such file"):
        collect_command(["no-such-program"], tmp_path / "run", "1:2")


def test_recordings_of_times_come_in_the_order_of_their_ranks(tmp_path):
    for rank in (10, 9, 0):
        (tmp_path / f"times_{rank}.json.gz").touch()
    names = [path.name.split(".")[0] for path in time_recordings(tmp_path)]
    assert names == ["times_0", "times_9", "times_10"]
