"""`chakra link` as other programs call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from support import paths
from support.commands import chakra

DATA = paths.DATA / "pytorch"


def test_json_has_what_others_rely_on(tmp_path):
    done = chakra("link", DATA / "gpt_pp_2", "-o", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.stderr
    ranks = json.loads(done.stdout)["ranks"]
    assert [r["rank"] for r in ranks] == [0, 1]
    for rank in ranks:
        for key in ("host_ops", "device_activities", "device_time_ns"):
            assert set(rank[key]) == {"in", "linked"}
        assert rank["measured_span_ns"] > 0 < rank["scheduled_span_ns"]
        assert rank["edge_violations"] == 0
        assert rank["p2p"] == {"SEND": 2, "RECV": 2}
        assert rank["steps"][0]["step"] == 2
        assert isinstance(rank["collectives"], dict)
    assert {p.name for p in (tmp_path / "run").glob("*.et")} == {"trace.0.et", "trace.1.et"}


def test_the_report_names_what_was_found_and_what_was_not_used(tmp_path):
    folder = DATA / "resnet50_b128"
    done = chakra("link", folder, "-o", tmp_path / "run", "--as-recorded", "--report")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("warning: recording makes a step 4.45 times as long as it is")
    for text in (
        "3,634/3,634",
        "963/963",
        "record function id",
        "programmatic overlaps",
        "not used",
    ):
        assert text in done.stdout


def test_without_options_the_step_is_that_of_the_program(tmp_path):
    """The second recording beside the pair is used, and recording's cost taken out."""
    done = chakra("link", DATA / "resnet50_b128", "-o", tmp_path / "run", "--json")
    report = json.loads(done.stdout)
    assert report["unprofiled_step_ns"] == 29_650_844
    assert abs(report["step_ns"] / report["unprofiled_step_ns"] - 1) < 0.04
    assert report["recorded_step_ns"] > 1.3 * report["step_ns"] == 1.3 * report["corrected_step_ns"]
    assert "second pass" in report["corrected"]
    assert not report["ignored_files"]
    assert not report["warning"]


def test_two_passes_and_undilated(tmp_path):
    folder = DATA / "resnet50_b128"
    files = (folder / "et.json.gz", folder / "kineto.json.gz")
    options = ("--times", folder / "kineto_only.json.gz", "--undilate", "--json")
    done = chakra("link", *files, *options, "-o", tmp_path / "run")
    (rank,) = json.loads(done.stdout)["ranks"]
    assert rank["removed_overhead_ms"] > 10
    assert rank["orphans"] == 20
    for step in rank["steps"]:
        assert step["scheduled_period_ns"] < step["period_ns"]


def test_errors_are_one_line_and_exit_2(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    done = chakra("link", tmp_path / "x.json", "-o", tmp_path / "run")
    assert done.exit_code == 2
    assert "no recording among the inputs" in done.stderr
    assert "Traceback" not in done.stderr


RECORDING = paths.DATA / "pytorch" / "mlp_ddp_nccl_1"


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
