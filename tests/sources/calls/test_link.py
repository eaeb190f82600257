"""Calls of many ranks put together: shared programs, groups by their members, measured times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import link
from chakrakit.sources.calls import CallRecording, RecordedGroup, link_calls
from support.recorders import dump_of, write_dumps


def test_every_call_is_linked_with_the_measured_times(tmp_path: Path) -> None:
    run, report = link([write_dumps(tmp_path, 8, 24)])

    assert report.groups["tp1"] == [4, 5, 6, 7]
    for rank in report.ranks:
        assert rank.device_activities.in_ == rank.device_activities.linked == 24
        assert rank.scheduled_span_ns == rank.measured_span_ns
        assert rank.edge_violations == 0
    trace = run.trace(5)
    calls = np.flatnonzero(trace.has("comm_seq"))
    first = dump_of(5, 8, 24, seed=0)["entries"][0]
    assert run.start(5)[calls[0]] + run.epoch_ns == first["time_created_ns"]
    assert trace.column("comm_size", 0)[calls[0]] == 2 * 1024


def test_ranks_that_make_the_same_calls_share_a_program(tmp_path: Path) -> None:
    run, _ = link([write_dumps(tmp_path, 16, 24)])

    assert len({run.bindings[r].body for r in run.ranks}) == 1
    assert run.bindings[9].groups == {"default_pg": "0", "mesh_tp": "tp2", "mesh_dp": "dp1"}


def test_two_dumps_of_one_rank_are_refused(tmp_path: Path) -> None:
    write_dumps(tmp_path / "a", 2, 3)
    write_dumps(tmp_path / "b", 2, 3)

    with pytest.raises(FormatError, match="both say rank 0"):
        link([tmp_path])


def test_groups_of_one_name_and_different_members_get_names_of_their_own(made):
    """Each pair of ranks calls its own group `tp`."""
    pairs = ((0, 1), (0, 1), (2, 3), (2, 3))
    run, report = link_calls(
        [
            CallRecording(
                r,
                f"dump{r}",
                made([("nccl:all_reduce", 0, 10, 20)], [RecordedGroup("tp", "", pair)]),
            )
            for r, pair in enumerate(pairs)
        ],
        "recorder",
    )
    assert report.groups == {"tp": [0, 1], "tp@2": [2, 3]}
    assert [run.bindings[r].groups for r in run.ranks] == [
        {"tp": "tp"},
        {"tp": "tp"},
        {"tp": "tp@2"},
        {"tp": "tp@2"},
    ]


def test_members_of_a_group_that_no_file_describes_are_those_who_used_it(made):
    seen = [
        CallRecording(r, f"dump{r}", made([("x", 0, 10, 20)], [RecordedGroup("g", "", ())]))
        for r in (0, 3)
    ]
    assert link_calls(seen, "recorder")[1].groups == {"g": [0, 3]}


def test_an_order_that_holds_on_one_rank_alone_is_no_part_of_the_program(made):
    """On rank 0 the second call began after the first had ended, on rank 1 before."""
    ranks = [
        CallRecording(0, "a", made([("x", 0, 0, 10), ("x", 0, 12, 20)])),
        CallRecording(1, "b", made([("x", 0, 0, 15), ("x", 0, 12, 20)])),
    ]
    _, report = link_calls(ranks, "recorder")
    assert all("stream" not in rank.edges for rank in report.ranks)
    assert link_calls(ranks[:1], "recorder")[1].ranks[0].edges["stream"] == 1


def test_files_without_a_call_are_refused(made):
    with pytest.raises(FormatError, match="no call is recorded in any of the files"):
        link_calls([CallRecording(0, "dump0", made([]))], "recorder")


def test_times_that_no_clock_shows_are_refused(made):
    with pytest.raises(FormatError, match="no clock shows"):
        link_calls([CallRecording(0, "dump0", made([("x", 0, 1 << 62, 1 << 62)]))], "recorder")
