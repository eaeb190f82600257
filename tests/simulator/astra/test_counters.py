"""Figures per link and per collective."""

from __future__ import annotations

from chakrakit.simulator.astra.run import collective_table, link_table
from support.astra_cases import case_of, coll, comp, network, on_all, run, system

MB = 1 << 20


def test_a_collective_begins_with_its_first_member_and_its_transfer_with_the_last() -> None:
    late = [comp(0, 5), coll(1, MB, [0])]
    result = run(case_of([[coll(1, MB)], late], network(("Switch", 2))))
    (row,) = collective_table(result).to_pylist()
    assert (row["collective"], row["group"], row["seq"]) == ("all-reduce", "0", 0)
    assert (row["comm_size"], row["members"]) == (MB, 2)
    assert (row["first_ns"], row["arrival_ns"]) == (0, 5000)
    assert row["end_ns"] == result.cycles.max()


def test_collectives_of_groups_are_counted_in_each_group() -> None:
    """Ranks 0 and 1 reduce twice in group 1, ranks 2 and 3 once in group 2 after 1 µs."""
    ranks = [[coll(0, MB, pg_name="1"), coll(1, MB, [0], pg_name="1")]] * 2
    ranks += [[comp(0, 1), coll(1, 2 * MB, [0], pg_name="2")]] * 2
    groups = {"comm_group": {"1": [0, 1], "2": [2, 3]}}
    found = collective_table(run(case_of(ranks, network(("Switch", 4)), **groups))).to_pylist()
    assert [(row["group"], row["seq"], row["comm_size"]) for row in found] == [
        ("1", 0, MB),
        ("2", 0, 2 * MB),
        ("1", 1, MB),
    ]


def test_links_without_congestion_are_dimensions() -> None:
    """Of 1 MB on 2 by 2 ranks, each rank sends as much in the first dimension and half in the other."""
    rings = system(["ring", "ring"])
    plane = network(("Ring", 2), ("Ring", 2))
    table = link_table(run(on_all([coll(0, MB)], plane, sys=rings)))
    assert table["rank"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table["link"].to_pylist()[:2] == ["dimension 0", "dimension 1"]
    assert table["bytes"].tolist() == [MB, MB // 2] * 4
