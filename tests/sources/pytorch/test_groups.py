"""Process groups: what the files say of them, and what all ranks together tell."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.sources.pytorch.groups import groups_of, infer_across_ranks
from chakrakit.sources.pytorch.read import read_kineto
from chakrakit.trace.model import CollectiveType as C


def _made(kind=C.ALL_REDUCE, size=8, out=-1):
    return RecordedCollective(0, 0, kind, "x", in_bytes=size, out_bytes=out)


def test_ends_at_the_same_time_tell_the_group_across_ranks():
    ends = {0: [100, 200], 1: [150, 260], 2: [101, 201], 3: [151, 259]}
    ranks = {r: RankCollectives([_made(), _made()], [0, 0], e) for r, e in ends.items()}
    groups = {"a": (0, 2), "b": (1, 3), "c": (0, 1), "d": (2, 3)}
    assert infer_across_ranks(ranks, groups) == 8
    assert [ranks[r].collectives[0].group for r in range(4)] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("gathered", "group"), [(16, "pair"), (32, "all")])
def test_a_group_whose_size_the_gathers_contradict_is_not_chosen(gathered, group):
    """Four ranks end together in either group; an output twice the input says that two took part."""
    seen = [[_made(C.ALL_GATHER, 8, gathered)] for _ in range(4)]
    ranks = {r: RankCollectives(calls, [0], [100]) for r, calls in enumerate(seen)}
    assert infer_across_ranks(ranks, {"all": (0, 1, 2, 3), "pair": (0, 1), "other": (2, 3)}) == 4
    assert seen[0][0].group == group
    assert seen[0][0].inferred


def test_what_nobody_shares_stays_without_a_group():
    ranks = {
        0: RankCollectives([_made()], [0], [100]),
        1: RankCollectives([_made(size=9)], [0], [100]),
    }
    assert infer_across_ranks(ranks, {"0": (0, 1)}) == 0
    assert ranks[0].collectives[0].group is None


def _said(recording, **info):
    recording.op("a", 0, 1)
    recording.kineto = {"distributedInfo": info}
    return read_kineto(recording.kineto_json().encode())


def test_groups_as_kineto_lists_them(recording):
    """A group without a list of ranks has all there are."""
    listed = [{"pg_name": "0"}, {"pg_name": "tp", "ranks": [1, 3]}]
    seen = _said(recording, world_size=4, pg_config=listed)
    assert groups_of(None, seen, 1) == {"0": (0, 1, 2, 3), "tp": (1, 3)}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([7], "'7' is listed among the process groups and is not one"),
        ([{"pg_name": "a", "ranks": "all"}], "ranks is 'all', not a list"),
        ([{"pg_name": "a", "ranks": [0, -1]}], "lists '-1', which is not a rank"),
        ([{"pg_name": "a", "pg_size": 1 << 40}], "0 to 1,048,576 ranks"),
    ],
)
def test_what_is_no_group_is_refused(recording, config, said):
    with pytest.raises(FormatError, match=said):
        groups_of(None, _said(recording, pg_config=config), 1)
