"""Process groups that are each other's counterparts, and where a rank stands in them."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding import Families
from chakrakit.sources.capture.folding.families import Family
from chakrakit.sources.capture.recording import CreatedGroup

WORLD = CreatedGroup("0", (0, 1, 2, 3), "world")


def test_groups_of_one_purpose_are_one_family():
    groups = [
        WORLD,
        CreatedGroup("1", (0, 1), "tp"),
        CreatedGroup("", (2, 3), "tp"),
        CreatedGroup("2", (0, 2), "dp"),
    ]
    found = Families(groups, 4)
    assert [(f.role, f.groups) for f in found.listed] == [
        ("world", [(0, 1, 2, 3)]),
        ("tp", [(0, 1), (2, 3)]),
        ("dp", [(0, 2), (1, 3)]),  # ranks 1 and 3 made the other one
    ]
    assert found.coordinates(3) == (3, 1, 1)


def test_groups_of_one_label_that_overlap_are_families_of_their_own():
    groups = [
        CreatedGroup("1", (0, 1), "x"),
        CreatedGroup("2", (2, 3), "x"),
        CreatedGroup("3", (0, 1), "x"),
    ]
    assert [f.role for f in Families(groups, 4).listed] == ["x", "x_2"]


@pytest.mark.parametrize(
    ("ranks", "world", "groups"),
    [
        ((0, 1), 6, [(0, 1), (2, 3), (4, 5)]),
        ((0, 4), 8, [(0, 4), (1, 5), (2, 6), (3, 7)]),
        ((0, 3), 8, [(0, 3)]),  # blocks of six do not fill eight
        ((0, 1, 3), 6, [(0, 1, 3)]),  # no pattern
        ((2,), 4, [(2,)]),
    ],
)
def test_a_lone_regular_group_has_counterparts_elsewhere(ranks, world, groups):
    (family,) = Families([CreatedGroup("1", ranks, "dp")], world).listed
    assert family.groups == groups


@pytest.mark.parametrize("label", ["", "undefined", "default_pg"])
def test_a_group_without_a_purpose_is_named_by_its_size(label):
    groups = [CreatedGroup("0", (0, 1, 2, 3), label), CreatedGroup("1", (0, 1), label)]
    assert [f.role for f in Families(groups, 4).listed] == ["world", "group_of_2"]


def test_names_in_a_rank_s_program_lead_to_families_also_where_another_made_the_group():
    """Rank 3's own group was not made by rank 0: it is told by its ranks."""
    found = Families([WORLD, CreatedGroup("1", (0, 1), "tp")], 4)
    homes = found.of_recorded(
        [CreatedGroup("a", (0, 1, 2, 3), "world"), CreatedGroup("b", (2, 3), "tp")]
    )
    assert {name: family.role for name, family in homes.items()} == {"a": "world", "b": "tp"}


def test_a_rank_outside_all_groups_has_no_place():
    family = Family("tp", 2)
    family.add((0, 1))
    assert (family.group_of(5), family.position(5)) == ((), -1)
    assert family.takes(CreatedGroup("", (2, 3), "tp"))
    assert not family.takes(CreatedGroup("", (1, 2), "tp"))
