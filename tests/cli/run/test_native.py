"""What `chakra simulate --machine` prints for people."""

from __future__ import annotations

import re
from pathlib import Path

from chakrakit import Binding, TraceBuilder, TraceSet, write
from support.commands import chakra, succeeded


def test_a_simulation_in_a_screen(runs: Path) -> None:
    told = succeeded("simulate", runs / "fast", "--machine", "dgx-h100", "--compute", "measured")
    assert "on dgx-h100 (flow network, measured compute)" in told
    assert re.search(r"^compute time: 100% measured \(\d operations\)$", told, re.M)
    assert re.search(r"^ALL_REDUCE|all-reduce +\S+ +2 +64 +1 ", told, re.M)


def test_long_lists_of_ranks_are_cut(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.comp("work", duration_ns=1000)
    write(TraceSet([t.build()], {rank: Binding(0) for rank in range(32)}), tmp_path / "many")
    told = succeeded("simulate", tmp_path / "many", "--machine", "dgx-h100:4")
    assert "… and 24 more ranks" in told


def test_jobs_are_told_against_running_alone(runs: Path) -> None:
    words = ("--machine", "dgx-h100", "--compute", "measured")
    told = succeeded("simulate", runs / "fast", runs / "slow", *words).splitlines()
    assert told[0].split() == ["job", "ranks", "ms", "alone", "ms", "slowdown"]
    assert [(line.split()[0], line.split()[-1]) for line in told[1:]] == [
        ("fast", "1.000"),
        ("slow", "1.000"),
    ]


def test_several_jobs_need_a_machine(runs: Path) -> None:
    both = ("--compute", "measured", "--communication", "measured")
    done = chakra("simulate", runs / "fast", runs / "slow", *both)
    assert done.exit_code == 2
    assert "several jobs run on a machine: give --machine" in done.stderr
