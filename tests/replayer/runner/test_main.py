"""`python run.py`: what it takes, and how it says that it cannot."""

from __future__ import annotations

import signal

import pytest

from chakrakit.replayer.runner import main as command


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs the command with some words; gives the exit code and what it said."""
    before = signal.getsignal(signal.SIGTERM)

    def started(folder, *words, **environment):
        monkeypatch.setattr("sys.argv", ["run.py", *words])
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return command.main(folder), capfd.readouterr().err

    yield started
    signal.signal(signal.SIGTERM, before)


def test_a_folder_without_plans_is_refused(run, tmp_path):
    assert run(tmp_path) == (2, f"error: {tmp_path} has no plan_N.json.gz\n")


def test_an_error_that_nobody_thought_of_is_one_line_too(run, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("what")

    monkeypatch.setattr(command, "supervise", fail)
    (tmp_path / "plan_0.json.gz").touch()
    assert run(tmp_path) == (1, "error: KeyError: 'what'\n")


def test_a_rank_reads_its_own_plan(run, tmp_path):
    (tmp_path / "plan_1.json.gz").write_text("nonsense")
    code, said = run(tmp_path, RANK="1", WORLD_SIZE="2")
    assert code == 2
    assert said.startswith(f"error: {tmp_path / 'plan_1.json.gz'} is not a plan:")


@pytest.mark.parametrize("words", [("--iterations", "0"), ("--warmup", "-1"), ("--timeout", "0")])
def test_numbers_that_make_no_sense_are_refused(run, tmp_path, words):
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, *words)


def test_what_is_given_reaches_those_who_run(run, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(command, "supervise", lambda *found: given.append(found) or 0)
    (tmp_path / "plan_0.json.gz").touch()
    assert run(tmp_path, "--iterations", "7", "--no-profile")[0] == 0
    ((folder, ranks, settings),) = given
    assert (folder, ranks) == (tmp_path, 1)
    assert (settings["iterations"], settings["warmup"], settings["profile"]) == (7, 3, False)
    assert settings["out"] == tmp_path / "result"
