"""Every attack is refused with a word, or comes out right; `python tests/fuzz/attacks` measures them too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.attacks import ATTACKS
from fuzz.attacks.attack import Attack, Walked, walk
from support.commands import chakra


def _marked(attack: Attack) -> object:
    marks = [pytest.mark.slow] if attack.pytorch or attack.large else []
    return pytest.param(attack, id=attack.name, marks=marks)


@pytest.mark.parametrize("attack", [_marked(attack) for attack in ATTACKS])
def test_an_attack_comes_out_as_it_must(attack: Attack, tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.mkdir()
    attack.make(given)
    done = chakra(*attack.words(given, tmp_path / "out"))
    said = " ".join((done.stdout + done.stderr).split())
    assert done.exit_code == attack.exit, said[-500:]
    assert re.search(attack.says, said), said[-500:]


def test_a_problem_says_what_is_wrong() -> None:
    attack = Attack("x", lambda folder: None, "info {in}", "does not exist")
    assert Walked(attack, 2, "x does not exist", 0.5, 100).problem == ""
    assert Walked(attack, 1, "Traceback", 0.5, 100).problem.startswith("exit 1")
    assert "does not say" in Walked(attack, 2, "nothing", 0.5, 100).problem
    assert Walked(attack, 2, "x does not exist", 9.0, 100).problem == "over the limits"
    assert Walked(attack, 2, "x does not exist", 0.5, 999).problem == "over the limits"


@pytest.mark.slow
def test_a_command_that_never_ends_is_ended(tmp_path: Path) -> None:
    endless = Attack("x", lambda folder: None, "info -", "")
    walked = walk(endless, tmp_path, patience=0.01)
    assert walked.exit == -9
