"""A search's rows are the best plan and the others, in their order."""

from __future__ import annotations

import msgspec

from chakrakit.exploration.search.searcher import Ranked


class Plan(msgspec.Struct):
    step: int


class Found(Ranked, msgspec.Struct):
    best: Plan
    runners_up: list[Plan]
    tried: int = 3


def test_the_best_is_the_first_row() -> None:
    found = Found(Plan(1), [Plan(2), Plan(3)])
    assert found.to_arrow().to_pylist() == [{"step": 1}, {"step": 2}, {"step": 3}]


def test_a_notebook_shows_all_of_them_in_one_table() -> None:
    html = Found(Plan(1), [Plan(2)])._repr_html_()
    assert "2 × Plan" in html
    assert "runners_up" not in html
