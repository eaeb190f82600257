"""The card beside a rank's files."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import ChakraError
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.step_facts import cards_of, overhead_of
from chakrakit.sources.pytorch.read import RecordingPair


@pytest.fixture
def pair(tmp_path):
    return RecordingPair(1, tmp_path / "et_1.json", None)


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["card_1.json", "card.json"], "card_1.json"),
        (["card.json", "card_0.json"], "card.json"),
        (["h200_card.json"], "h200_card.json"),
        (["card_0.json", "card_2.json"], None),  # other ranks' cards
        ([], None),
    ],
)
def test_a_rank_s_own_card_comes_first_then_its_folder_s(pair, tmp_path, files, chosen):
    for name in files:
        (tmp_path / name).write_text("{}")
    (card,) = cards_of([pair])
    assert (card.path.name if card.path else None) == chosen


@pytest.mark.parametrize(
    ("card", "overhead"),
    [
        (
            {"overhead": {"operator_ns": 900, "launch_ns": 3000.4, "step_ns": 5_000_000}},
            Overhead(operator_ns=900, launch_ns=3_000, step_ns=5_000_000, measured=True),
        ),
        ({"step_ms_back_to_back": 12.5}, Overhead(step_ns=12_500_000)),
        ({"overhead": {"step_ns": -3}}, None),
        ({"overhead": "little"}, None),
        ({"step_ms_back_to_back": True}, None),
        ({}, None),
    ],
)
def test_what_a_card_says_of_recording(pair, tmp_path, card, overhead):
    (tmp_path / "card_1.json").write_text(json.dumps(card))
    (read,) = cards_of([pair])
    assert overhead_of(read) == overhead


def test_no_card_says_nothing_and_a_damaged_one_is_named(pair, tmp_path):
    assert [card.fields for card in cards_of([pair])] == [{}]
    (tmp_path / "card.json").write_text("{")
    with pytest.raises(ChakraError, match=r"card\.json"):
        cards_of([pair])


@pytest.mark.parametrize(
    ("name", "says"), [("card_1.json", {"torch": "2"}), ("card.json", {}), ("card_0.json", {})]
)
def test_what_the_collector_says_of_a_rank_is_in_the_card_with_its_number(
    pair, tmp_path, name, says
):
    (tmp_path / name).write_text('{"torch": "2"}')
    (card,) = cards_of([pair])
    assert card.fields == {"torch": "2"}
    assert card.of_collector == says
