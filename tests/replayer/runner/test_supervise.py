"""All ranks of a replay: how the end of one is told."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.limits import ReplayError
from chakrakit.replayer.runner.supervise import describe_exit, supervise


@pytest.mark.parametrize(
    ("code", "said"),
    [(2, "ended with code 2"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99")],
)
def test_an_end_in_words(code, said):
    assert describe_exit(code) == said


RUN = """\
import os, sys, time
if os.environ["RANK"] == "1":
    sys.exit(3)
if "wait" in sys.argv[0]:
    time.sleep(600)
"""


@pytest.mark.slow
def test_the_first_failure_ends_all_and_is_named(tmp_path):
    folder = tmp_path / "wait"
    folder.mkdir()
    (folder / "run.py").write_text(RUN)
    settings = {"out": tmp_path, "iterations": 1, "warmup": 0, "timeout_s": 5, "profile": False}
    with pytest.raises(ReplayError, match="rank 1 ended with code 3; the replay was ended"):
        supervise(folder, 2, settings)
    (folder / "run.py").write_text("")
    assert supervise(folder, 2, settings) == 0
