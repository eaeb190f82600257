"""Commands, options, choices, passes and JSON keys that were published go on working."""

from __future__ import annotations

import pytest

from support.published import LIST, published_names


@pytest.fixture(scope="module")
def names() -> set[str]:
    return published_names()


def test_nothing_published_is_gone(names: set[str]) -> None:
    assert sorted(set(LIST.read_text().splitlines()) - names) == []


@pytest.mark.parametrize(
    "name",
    [
        "simulate",
        "simulate --network=flow",
        "generate --no-strict",
        "search --tp",
        "select{ranks}",
        "simulate ranks[].finish_ns",
        "generate per_rank[].memory",
    ],
)
def test_the_list_has_every_kind_of_name(name: str, names: set[str]) -> None:
    assert name in names
    assert name in LIST.read_text().splitlines()
