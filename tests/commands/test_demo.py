"""The demo tells the whole story, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chakrakit
from chakrakit.commands import main


@pytest.mark.slow
def test_the_demo_runs_to_its_report(tmp_path: Path, capsys) -> None:
    main(["demo", "-o", str(tmp_path / "out")], standalone_mode=False)
    said = capsys.readouterr().out
    assert "8,030,261,248 parameters, 64 ranks" in said
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    fast, slow = (chakrakit.read(tmp_path / "out" / name) for name in ("infiniband", "ethernet"))
    assert len(fast) == len(slow) == 64
    assert re.search(r"step [\d,.]+ → [\d,.]+ ms", "\n".join(said.splitlines()[-24:]))
    assert fast.makespan_ns < slow.makespan_ns
