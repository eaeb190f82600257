"""Errors in programs of the user's say where they arose."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.configuration import place_in_program, run_file
from support.commands import chakra

POLICY = """class Odd:
    def route(self, request, engines):
        return engines[0].nowhere
"""


def test_an_error_in_a_program_is_known_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(POLICY)
    odd = run_file(file, "mine").Odd()
    with pytest.raises(TypeError) as caught:
        odd.route(0, None)
    assert place_in_program(caught.value) == f"{file}:3, in route"
    assert place_in_program(ValueError("elsewhere")) is None


def test_a_command_names_the_line_and_shows_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(POLICY)
    words = ("serve", "--model", "llama-3.1-8b", "--machine", "dgx-h100", "--replicas", 2)
    stream = ("--requests", "poisson{rate=1,n=2,prompt=8,output=2}")
    done = chakra(*words, *stream, "--policy", f"{file}:Odd")
    assert done.exit_code == 2
    line = "AttributeError: 'EngineView' object has no attribute 'nowhere'"
    assert done.stderr == f"error: {file}:3, in route: {line}\n"
