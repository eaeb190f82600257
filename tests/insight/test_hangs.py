"""Dumps with one fault planted: the culprit and only the culprit is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chakrakit.insight import analyze
from chakrakit.insight.diagnosis import board_of, hang_culprits
from chakrakit.sources import link
from support.recorders import Fault, differ, hang, reorder, slow, swap, write_dumps

RANKS, CALLS = 32, 60


def planted(kind: str, seed: int) -> tuple[int, Fault, str]:
    chance = random.Random(seed)
    rank, at = chance.randrange(RANKS), chance.randrange(12, CALLS - 12)
    return {
        "missing": (rank, hang(rank, at), "missing-rank"),
        "dead": (rank, hang(rank, at, dead=True), "dead-rank"),
        "order": (rank, swap(rank, at, at + 3), "order-mismatch"),
        "order of groups": (rank, reorder(rank, at - at % 3), "order-mismatch"),
        "size": (rank, differ(rank, at, input_sizes=[[77]], output_sizes=[[77]]), "size-mismatch"),
        "dtype": (rank, differ(rank, at, input_dtypes=["Half"]), "type-mismatch"),
        "kind": (rank, differ(rank, at, profiling_name="nccl:broadcast"), "type-mismatch"),
        "slow": (rank, slow(rank, 0, 300_000), "slow-rank"),
        "slow since": (rank, slow(rank, CALLS // 2, 400_000), "slow-rank"),
    }[kind]


KINDS = (
    "missing",
    "dead",
    "order",
    "order of groups",
    "size",
    "dtype",
    "kind",
    "slow",
    "slow since",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_culprit_of_a_planted_fault_is_named(tmp_path: Path, kind: str, seed: int) -> None:
    rank, fault, expected = planted(kind, seed)
    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, seed, fault)])

    culprits = hang_culprits(board_of(run))

    assert [(c.kind, c.rank) for c in culprits] == [(expected, rank)]


def test_calls_that_were_issued_and_never_began_wait_as_well(tmp_path: Path) -> None:
    """Their streams were busy, or their kernels did not report that they began."""
    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, 1, hang(5, 20, state="scheduled"))])
    assert [(c.kind, c.rank) for c in hang_culprits(board_of(run))] == [("missing-rank", 5)]


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_recording_has_no_culprit(tmp_path: Path, seed: int) -> None:
    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, seed)])

    assert hang_culprits(board_of(run)) == []


def test_recordings_whose_rings_dropped_different_calls_have_no_culprit(tmp_path: Path) -> None:
    def drop_oldest(rank: int, dump: dict) -> None:
        del dump["entries"][: rank % 7]

    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, fault=drop_oldest)])

    assert hang_culprits(board_of(run)) == []


def test_calls_in_flight_everywhere_are_no_hang(tmp_path: Path) -> None:
    def last_one_runs(rank: int, dump: dict) -> None:
        dump["entries"][-1] |= {"state": "started", "time_discovered_completed_ns": None}

    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, fault=last_one_runs)])

    assert hang_culprits(board_of(run)) == []


def test_clocks_that_differ_between_hosts_make_nobody_late(tmp_path: Path) -> None:
    def skewed(rank: int, dump: dict) -> None:
        off = (rank // 8) * 30_000_000
        for entry in dump["entries"]:
            for key in (
                "time_created_ns",
                "time_discovered_started_ns",
                "time_discovered_completed_ns",
            ):
                entry[key] += off

    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, fault=skewed)])

    assert hang_culprits(board_of(run)) == []


def test_the_slow_ranks_first_late_call_is_named(tmp_path: Path) -> None:
    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, fault=slow(5, 30, 400_000))])

    culprits = hang_culprits(board_of(run))[0]

    assert culprits.since_step == 11  # call 30 is the eleventh of the first of three groups
    assert culprits.factor == pytest.approx(1.4, abs=0.05)


def test_analyze_names_the_culprit(tmp_path: Path) -> None:
    run, _ = link([write_dumps(tmp_path, RANKS, CALLS, fault=hang(3, 20))])

    culprits = analyze(run).culprits

    assert [(c.rank, c.collective) for c in culprits] == [(3, "ALL_GATHER 7 of group dp3")]
