"""The table of codes: each name once, each triggered by a trace, and the repairs marked."""

from __future__ import annotations

from chakrakit.trace.validation import codes
from support.faulty_sets import SETS
from support.faulty_traces import ONE_RANK


def test_each_code_is_there_once_with_all_that_a_reader_needs() -> None:
    assert len(codes.by_name()) == len(codes.CODES)
    for code in codes.CODES:
        assert code.severity in ("error", "warning", "info")
        assert all((code.area, code.problem, code.why, code.cure)), code.name


def test_a_mark_at_the_name_says_what_fix_repairs() -> None:
    [kept, mended] = codes._area(
        "file",
        ("lost", "error", "what", "why", "cure"),
        ("bent!", "warning", "what", "why", "cure"),
    )
    assert (kept.name, kept.repaired) == ("lost", False)
    assert (mended.name, mended.repaired, mended.area) == ("bent", True, "file")
    assert not any("!" in name for name in codes.by_name())


def test_every_code_has_a_trace_that_triggers_it():
    of_sets = {c for _, _, counts in SETS.values() for c in counts}
    of_runs = {"run-times", "ranks-disagree", "workload-card"}  # in tests of their own
    assert {*ONE_RANK, *of_sets, "groups-file"} | of_runs == set(codes.by_name())
