"""A card: defaults are left out of its file, and a wrong field is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.trace.sets import Card, read_card, write_card


def test_a_card_is_written_without_its_defaults_and_read_again(tmp_path: Path) -> None:
    card = Card(name="job", settings={"x": [1, {"y": None}]}, epoch_ns=5)
    write_card(card, tmp_path / "card.json")
    text = (tmp_path / "card.json").read_text()
    assert json.loads(text) == {"name": "job", "settings": {"x": [1, {"y": None}]}, "epoch_ns": 5}
    assert text.startswith('{\n  "name"')  # for people
    assert read_card(tmp_path / "card.json") == card


def test_replacing_leaves_the_old_card_alone() -> None:
    card = Card(passes=["trim"])
    assert card.replace(passes=["trim", "scale"]).passes == ["trim", "scale"]
    assert (card.passes, card.kind, card.tick_ps) == (["trim"], "traces", 1000)


def test_a_wrong_field_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"tick_ps": 0}')
    with pytest.raises(ConfigError, match=r"card\.json.*tick_ps"):
        read_card(tmp_path / "card.json")
