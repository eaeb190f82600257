"""The commands: what they print, what they write, and how they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.commands import COMMANDS
from support.commands import chakra


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["info", "absent"], "absent: no such file or directory, and no absent.N.et beside it"),
        (["info", "empty"], "no NAME.N.et files in this directory"),
        (["info", "broken.et"], "broken.et at byte"),
        (["info", "broken.et.gz"], "broken.et.gz: the gzip data is damaged"),
        (["info", "broken.json"], "broken.json: line 1"),
        (["info", "broken.parquet"], "broken.parquet: not a Parquet trace"),
        (["convert", "one.et", "x.txt/"], "x.txt"),
        (["convert", "one.et", "x.parquet.gz"], "compressed inside"),
        (["convert", "t", "x.et"], "one file cannot hold 2 ranks"),
        (["convert", "one.et", "one.et.gz/x.et"], "cannot be written: File exists"),
        (["export", "one.et", "x.pdf"], "use .graphml or .dot"),
        (["export", "one.et", "x.dot", "--name", "("], "not a regular expression"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    place: Path, monkeypatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(place)
    (place / "empty").mkdir()
    (place / "x.txt").write_text("a file where a directory should be")
    (place / "broken.et").write_bytes(b"\x05\xff\xff\xff\xff\xff")
    (place / "broken.et.gz").write_bytes((place / "one.et.gz").read_bytes()[:-5])
    (place / "broken.json").write_text('{"version": "1", ')
    (place / "broken.parquet").write_bytes(b"PAR1" + b"x" * 40)
    done = chakra(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert problem in done.stderr


def test_empty_standard_input_is_an_error() -> None:
    done = chakra("info", "-", input=b"")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: <stdin>: the file is empty; a trace has at least a header\n",
    )


def test_debug_shows_the_traceback_wherever_it_stands(place: Path) -> None:
    for arguments in (["--debug", "info", place / "absent"], ["info", place / "absent", "--debug"]):
        done = chakra(*arguments)
        assert type(done.exception).__name__ == "ChakraError"


def test_a_mistyped_command_is_guessed() -> None:
    done = chakra("inof", "x")
    assert done.exit_code == 2
    assert "Did you mean 'info'?" in done.stderr


def test_help_lists_every_command_without_importing_them() -> None:
    code = (
        "import sys; from chakrakit.commands import group\n"
        "try: group.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'pyarrow', 'msgspec'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    for name in COMMANDS:
        assert f"  {name} " in done.stdout
