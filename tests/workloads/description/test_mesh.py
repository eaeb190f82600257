"""Which rank is where: coordinates, groups and peers of a plan."""

import numpy as np
import pytest

from chakrakit.workloads.description import Mesh, Plan

MESH = Mesh(Plan(tp=2, cp=2, dp=2, pp=2))  # tp fastest, then cp, dp, pp


def test_the_first_axis_of_the_order_goes_fastest():
    c = {axis: MESH.coordinates[axis].tolist() for axis in ("tp", "cp", "dp", "pp")}
    assert c["tp"] == [0, 1] * 8
    assert c["pp"] == [0] * 8 + [1] * 8
    other = Mesh(Plan(tp=2, cp=2, dp=2, pp=2, order="pp-dp-cp-tp"))
    assert other.coordinates["pp"].tolist() == [0, 1] * 8


@pytest.mark.parametrize(
    ("role", "first", "count"),
    [
        ("tp", [0, 1], 8),
        ("cp", [0, 2], 8),
        ("dp", [0, 2, 4, 6], 4),  # context-parallel ranks hold tokens too
        ("world", list(range(16)), 1),
        ("mp", [0, 1, 8, 9], 4),
    ],
)
def test_groups_of_a_role(role, first, count):
    groups = MESH.members(role)
    assert (groups[0], len(groups)) == (first, count)
    assert MESH.degree(role) == len(first)
    assert sorted(r for g in groups for r in g) == list(range(16))


def test_experts_are_spread_over_neighbours_among_the_data_ranks():
    mesh = Mesh(Plan(dp=4, ep=2))
    assert mesh.members("ep") == [[0, 1], [2, 3]]
    assert mesh.members("edp") == [[0, 2], [1, 3]]


def test_shards_and_their_replicas():
    mesh = Mesh(Plan(dp=4, shard=2))
    assert mesh.members("shard") == [[0, 1], [2, 3]]
    assert mesh.members("replica") == [[0, 2], [1, 3]]


def test_a_tied_table_is_shared_by_the_stages_that_hold_the_ends():
    mesh = Mesh(Plan(pp=4), ends=(0, 3))
    assert mesh.members("embedding") == [[0, 3]]
    assert mesh.group_of("embedding").tolist() == [0, -1, -1, 0]


def test_peers_are_the_same_place_on_another_stage_or_next_on_the_ring():
    ranks = MESH.ranks_at(0)
    assert MESH.peers(ranks, "pp:1").tolist() == list(range(8, 16))
    assert MESH.peers(np.array([0, 2]), "cp_next").tolist() == [2, 0]
    assert MESH.peers(np.array([0, 2]), "cp_prev").tolist() == [2, 0]
    assert MESH.peers(np.array([0, 2]), "rank:5").tolist() == [5, 5]


def test_a_second_mesh_lies_after_the_first():
    mesh = Mesh(Plan(tp=2), first=8)
    assert mesh.members("tp") == [[8, 9]]
