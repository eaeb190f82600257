"""Which ranks run the same program, found by capturing as few as possible."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding import Search, kinds
from chakrakit.sources.capture.recording import CapturedRank, CommCall, CreatedGroup, Op
from chakrakit.sources.pytorch import names as words


def world(size, *more):
    return [CreatedGroup("0", tuple(range(size)), "world"), *more]


@pytest.fixture
def searched():
    """Searches ranks whose programs a function names; gives kinds, how many were captured, warnings."""

    def search(size, program, groups=None, comms=()):
        captured = []

        def capture(rank, full):
            captured.append(rank)
            return CapturedRank(
                rank=rank,
                world=size,
                groups=world(size) if groups is None else groups,
                ops=[
                    Op(signature=0, module=0, phase=0, step=0, reads=[], writes=[], comm=i)
                    for i in range(len(comms))
                ],
                comms=list(comms),
                first_digest=str(program(rank)),
            )

        found = Search(capture, size)
        kinds = [k.ranks for k in found.kinds()]
        return kinds, len(set(captured)), found.warnings

    return search


def test_ranks_that_are_all_alike_take_three_captures(searched):
    kinds, captured, warnings = searched(1024, lambda rank: "same")
    assert (kinds, captured, warnings) == ([list(range(1024))], 3, [])


def test_an_axis_is_halved_where_its_ends_differ(searched):
    kinds, captured, _ = searched(32, lambda rank: rank >= 20)
    assert kinds == [list(range(20)), list(range(20, 32))]
    assert captured < 12


def test_fewer_places_are_captured_where_a_rank_does_more():
    """Halvings of an axis along which all ranks differ, as in a ring, by operators that a rank calls."""
    assert [kinds._most_halvings(n) for n in (0, 1_000, 30_000, 54_000, 10**6)] == [5, 5, 2, 1, 1]


def test_a_first_rank_that_differs_is_a_kind_of_its_own(searched):
    assert searched(64, lambda rank: rank == 0)[0] == [[0], list(range(1, 64))]


def test_every_place_of_a_pipeline_is_captured(searched):
    """Messages go along the axis, so that places in the middle may differ from both ends."""
    stages = [CreatedGroup("pp", (0, 1, 2, 3), "pp")]
    send = [CommCall(words.SEND, "pp", 8, 8, "float32", peer=1)]
    kinds, captured, _ = searched(4, lambda rank: rank in (1, 2), stages, send)
    assert (kinds, captured) == ([[0, 3], [1, 2]], 4)


def test_places_in_two_families_make_kinds_together(searched):
    """Tensor-parallel pairs of a pipeline of two: the stage decides, in every pair."""
    pairs = [CreatedGroup("t", (0, 1), "tp"), CreatedGroup("", (2, 3), "tp")]
    stages = [CreatedGroup("p", (0, 2), "pp"), CreatedGroup("", (1, 3), "pp")]
    kinds, _, _ = searched(4, lambda rank: rank // 2, [*world(4), *pairs, *stages])
    assert kinds == [[0, 1], [2, 3]]


def test_few_ranks_that_follow_no_rule_are_captured_one_by_one(searched):
    odd = {5, 8}  # both ends are alike, and the sample from the middle, rank 5, is not
    kinds, captured, warnings = searched(12, lambda rank: rank in odd)
    assert kinds == [[r for r in range(12) if r not in odd], sorted(odd)]
    assert (captured, warnings) == (12, [])


def test_a_sample_that_breaks_the_rule_among_many_is_said(searched):
    """The sample from the middle of 128 ranks is rank 58."""
    kinds, _, (warning,) = searched(128, lambda rank: rank == 58)
    assert kinds == [[r for r in range(128) if r != 58], [58]]
    assert warning.startswith("rank 58 does not run the program its place suggests")


def test_programs_that_change_at_every_rank_are_taken_in_stretches_and_said(searched):
    kinds, captured, warnings = searched(1024, lambda rank: rank)
    assert len(kinds) <= 36
    assert captured <= 36
    assert any("run different programs and those between them may too" in w for w in warnings)
