"""What a run gave, rank by rank, whether ranks were folded or not."""

from __future__ import annotations

import pytest

from support.astra_cases import case_of, comp, network, on_all, run

TWO = network(("Switch", 2))


@pytest.mark.parametrize("fold", [True, False])
def test_every_rank_can_be_asked(fold: bool) -> None:
    """5 µs of CPU after 3 µs of GPU; node 4 comes before node 9 in the table."""
    nodes = [comp(9, 5, [4], is_cpu_op=True), comp(4, 3)]
    result = run(on_all(nodes, TWO), fold=fold)
    assert result.folded == fold
    assert result.fold_factor == (2 if fold else 1)
    assert result.cycles.tolist() == [8000, 8000]
    assert result.exposed.tolist() == [5000, 5000]
    for rank in (0, 1):
        assert result.table(rank)["id"].tolist() == [4, 9]
        assert result.start(rank).tolist() == [0, 3000]
        assert result.end(rank).tolist() == [3000, 8000]


def test_a_rank_that_never_finishes_has_no_cycles() -> None:
    never = [comp(0, 5) | {"type": "INVALID_NODE", "dur_us": 0}, comp(1, 5, [0])]
    result = run(case_of([[comp(0, 4)], never], TWO), lenient=True)
    said = result.facts()
    assert [(r.rank, r.cycles, r.exposed_cycles) for r in said.ranks] == [
        (0, 4000, 0),
        (1, None, None),
    ]
    assert said.max_cycles == 4000
    assert said.stuck == result.stuck != ""
    assert said.ignored == []
