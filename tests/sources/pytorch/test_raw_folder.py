"""The folder of recordings: what may be replaced, and when it is whole."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import ChakraError
from chakrakit.sources.pytorch import collection as module


def test_a_folder_of_recordings_may_be_replaced(tmp_path):
    for name in ("et_0.json.gz", "kineto_0.json.gz", "capture_3_0.json.gz", "card_0.json.part"):
        (tmp_path / name).touch()
    module.check_raw(tmp_path)  # refuses nothing
    module.check_raw(tmp_path / "nothing")
    assert len(list(tmp_path.iterdir())) == 4  # and removes nothing yet


@pytest.mark.parametrize("name", ["et_0.json", "model.pt", ".hidden", "card_x.json"])
def test_anything_else_in_it_is_somebody_elses(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(ChakraError, match=r"has other things in it .*; give another -o, or move"):
        module.check_raw(tmp_path)


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "run-raw").touch()
    with pytest.raises(ChakraError, match="not a directory"):
        module.check_raw(module.raw_folder(tmp_path / "run"))


def test_it_is_whole_when_every_rank_has_its_card(tmp_path):
    assert not module.is_complete(tmp_path)
    (tmp_path / "card_1.json").write_text(json.dumps({"world_size": 2}))
    assert not module.is_complete(tmp_path)
    assert module.missing_cards(tmp_path, 2) == [0]
    (tmp_path / "card_0.json").write_text(json.dumps({"world_size": 2}))
    assert module.is_complete(tmp_path)
