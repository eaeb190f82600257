"""The commands: what they print, what they write, and how they refuse."""

from __future__ import annotations

import shlex
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


def test_debug_of_another_program_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr("chakrakit.commands.group.main", lambda words, **_: given.append(words))
    chakra("collect", "--debug", "--", "train.py", "--debug")
    assert given == [["collect", "--", "train.py", "--debug"]]


def _in_shell(line: str) -> tuple[int, str]:
    """The exit code of `chakra` in a line of bash, and all that is said."""
    words = f'chakra() {{ {shlex.quote(sys.executable)} -m chakrakit "$@"; }}; {line}'
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("chakra machines dgx-h100 >&-", (0, "")),
        ("chakra machines nothing 2>&-", (2, "")),
        ("chakra machines dgx-h100 <&- >&- 2>&-", (0, "")),
        ("chakra machines --json | true; exit ${PIPESTATUS[0]}", (141, "")),
        (
            "chakra machines >/dev/full",
            (2, "error: the output: no space is left; free some, or write elsewhere\n"),
        ),
        (
            "(ulimit -v 100000; chakra machines x 2>&1 | cut -c 1-49)",
            (0, "error: 256 MiB more were needed at once than ther\n"),
        ),
        (
            'cd "$(mktemp -d)"; rmdir "$PWD"; chakra conformance -o x',
            (2, "error: the current folder is gone; go to one that is there\n"),
        ),
    ],
)
def test_streams_and_folders_that_are_gone_or_full(line: str, expected: tuple[int, str]) -> None:
    assert _in_shell(line) == expected
