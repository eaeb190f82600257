"""`chakra models`: the list, and one model as a description."""

from __future__ import annotations

import pytest

import chakrakit as ck
from support.commands import chakra, data, succeeded


def test_models_are_listed_with_their_parameters() -> None:
    rows = {m["name"]: m for m in data("models")["models"]}
    assert rows["llama3.1-8b"]["parameters"] == 8_030_261_248
    assert "used by a token" in succeeded("models").splitlines()[0]


def test_one_model_is_a_description() -> None:
    found = data("models", "llama-3.1-8b")
    assert (found["family"], found["layers"], found["hidden"]) == ("decoder", 32, 4096)


def test_a_mistyped_model_is_guessed() -> None:
    done = chakra("models", "llama3.1-8")
    assert done.exit_code == 2
    assert "did you mean 'llama3.1-8b'" in done.stderr


@pytest.mark.slow
def test_a_model_is_listed_or_described() -> None:
    assert ck.models("llama-3.1-8b").name == "llama3.1-8b"
    assert len({m.name for m in ck.models().models}) == len(ck.models().models)
