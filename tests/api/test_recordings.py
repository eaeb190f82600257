"""Linking from Python: inputs in lists, results that unpack."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from support.paths import DATA

RECORDING = DATA / "pytorch" / "mlp_ddp_nccl_1"


def test_files_may_be_given_one_by_one_or_in_a_list(tmp_path: Path) -> None:
    files = sorted(RECORDING.glob("*.json.gz"))
    run, report = ck.link(files, output=tmp_path / "run")
    assert ck.read(tmp_path / "run").ranks == run.ranks == (0,)
    assert report.ranks[0].host_ops.linked > 0


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ck.ConfigError, match="exclude each other"):
        ck.link(RECORDING, undilate=True, as_recorded=True)


def test_a_linked_run_is_a_pair_and_shows_its_report() -> None:
    linked = ck.link(RECORDING)
    assert linked[0] is linked.run
    assert linked[1] is linked.report
    assert repr(linked).startswith("LinkedRun(")
