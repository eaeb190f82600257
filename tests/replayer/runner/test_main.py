"""`python run.py`: the command line of an exported replay."""

from __future__ import annotations

import gzip
import json
import signal
import sys
from pathlib import Path

import pytest

from chakrakit.replayer.runner import main as module
from chakrakit.replayer.runner.main import main


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Runs the command; gives its exit code and what ranks were started with."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(module, "watch_parent", lambda: None)
    monkeypatch.setattr(module, "_HEAR_S", 0)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    started = []
    monkeypatch.setattr(module, "supervise", lambda *how: started.append(how) or 0)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        return main(tmp_path), started

    return run


def plan(folder, **what):
    said = {"format": "chakra-replay", "version": 1, "world": 2, "rank": 0, **what}
    said |= {
        "slots": 0,
        "groups": [],
        "steps": [],
        "device": "cpu",
        "backend": "gloo",
        "memory": {},
    }
    (folder / "plan_0.json.gz").write_bytes(gzip.compress(json.dumps(said).encode()))


def test_all_ranks_of_the_folder_are_started(ran, tmp_path):
    for rank in (0, 1, 2):
        (tmp_path / f"plan_{rank}.json.gz").touch()
    code, ((folder, ranks, settings),) = ran("--iterations", "4", "--no-profile")
    assert (code, folder, [r["RANK"] for r in ranks]) == (0, tmp_path, ["0", "1", "2"])
    assert {r["WORLD_SIZE"] for r in ranks} == {"3"}
    assert (settings["iterations"], settings["warmup"], settings["profile"]) == (4, 3, False)
    assert settings["out"] == tmp_path / "result"


def test_under_a_launcher_one_rank_is_started(ran, monkeypatch):
    """It gets a process of its own there too: what ends it does not end the launcher's."""
    monkeypatch.setenv("RANK", "4")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert ran()[1][0][1] == [{"RANK": "4"}]


def test_a_folder_without_plans_says_so(ran, capfd):
    assert ran()[0] == 2
    assert "has no plan_N.json.gz" in capfd.readouterr().err


@pytest.mark.parametrize("wrong", [("--iterations", "0"), ("--warmup", "-1"), ("--timeout", "0")])
def test_numbers_that_cannot_be_are_refused(ran, wrong, capsys):
    with pytest.raises(SystemExit) as error:
        ran(*wrong)
    assert error.value.code == 2
    assert "iterations must be 1 or more" in capsys.readouterr().err


def test_a_rank_of_another_world_is_refused(ran, tmp_path, monkeypatch, capfd):
    plan(tmp_path)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert ran("--worker")[0] == 2
    assert "rank 0: error: the plans are for 2 ranks; start as many" in capfd.readouterr().err


def test_a_result_is_moved_into_place_when_it_is_whole(tmp_path):
    module._write(Path(tmp_path) / "rank_0.json", {"rank": 0})
    assert [p.name for p in tmp_path.iterdir()] == ["rank_0.json"]
    assert json.loads((tmp_path / "rank_0.json").read_text()) == {"rank": 0}


def test_a_termination_ends_as_any_other_end():
    with pytest.raises(SystemExit) as error:
        module._end(signal.SIGTERM, None)
    assert error.value.code == 128 + signal.SIGTERM
