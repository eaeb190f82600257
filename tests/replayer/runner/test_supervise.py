"""All ranks of a replay on this machine: started together, and none left when one fails."""

from __future__ import annotations

import sys

import pytest

from chakrakit.replayer.runner import supervise as supervise_module
from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.supervise import describe_exit, local_ranks, supervise

RUN = """
import os, sys, threading, time
sys.path.insert(0, {path!r})
rank = int(os.environ["RANK"])
open(f"{{sys.argv[sys.argv.index('--out') + 1]}}/{{rank}}", "w").write(" ".join(sys.argv[1:]))
pipe = int(os.environ["CHAKRA_REPLAY_PIPE"])
{program}
"""


@pytest.fixture
def run(tmp_path):
    """Runs two ranks of a small program; gives the exit code and what each was told."""

    def start(program):
        (tmp_path / "run.py").write_text(RUN.format(path=sys.path[0], program=program))
        settings = {
            "out": tmp_path,
            "iterations": 5,
            "warmup": 1,
            "timeout_s": 9.0,
            "profile": False,
        }
        return supervise(tmp_path, local_ranks(2), settings), tmp_path

    return start


@pytest.mark.parametrize(
    ("code", "said"),
    [(1, "ended with code 1"), (-9, "was killed by SIGKILL"), (-200, "was killed by signal 200")],
)
def test_an_end_in_words(code, said):
    assert describe_exit(code) == said


def test_ranks_are_told_how_to_run_and_all_is_well_when_all_are(run):
    code, folder = run("")
    assert code == 0
    told = (folder / "1").read_text()
    assert told == (f"--worker --out {folder} --iterations 5 --warmup 1 --timeout 9.0 --no-profile")


def test_the_first_failure_is_told_to_the_others_and_ends_them(run, tmp_path, monkeypatch):
    """Rank 1 hears of it and sleeps on all the same: it is ended."""
    monkeypatch.setattr(supervise_module, "_GRACE_S", 0.2)
    program = (
        "if rank == 0: sys.exit(7)\n"
        "said = os.read(pipe, 999).decode()\n"
        "open(sys.argv[3] + '/said', 'w').write(said)\n"
        "time.sleep(600)"
    )
    with pytest.raises(ReplayError, match="rank 0 ended with code 7; the replay was ended"):
        run(program)
    assert (tmp_path / "said").read_text() == "rank 0 ended with code 7\n"
