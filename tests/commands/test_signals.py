"""Commands that are stopped leave the old output or the new one, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

import chakrakit.commands
from support.interrupting import run
from support.other_commands import OTHERS
from support.writing_commands import COMMANDS, WITH_PYTORCH, make_inputs


def test_every_command_can_be_stopped() -> None:
    stopped = {command.words[0] for command in (COMMANDS | OTHERS | WITH_PYTORCH).values()}
    assert stopped == set(chakrakit.commands.COMMANDS)


@pytest.mark.slow
def test_signals_at_random_moments_leave_whole_outputs(tmp_path: Path) -> None:
    """One for each command; `python tests/support/interrupting.py` sends as many as one likes."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    commands = list((COMMANDS | OTHERS).values())
    assert run(commands, inputs, len(commands), seed=1) == []


class _Library(ExtensionFileLoader):
    """A loader in which a signal arrives, as it may while a compiled module initializes itself."""

    def load(self, number: signal.Signals) -> None:
        chakrakit.commands._end(number, sys._getframe())


class _Source(SourceFileLoader):
    """The same while a file is compiled, where Python's compiler clears exceptions."""

    def source_to_code(self, data: Any, *_: Any) -> None:  # type: ignore[override]
        chakrakit.commands._end(data, sys._getframe())

    load = source_to_code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loader", [_Library, _Source])
def test_a_signal_while_something_is_loaded_comes_a_moment_later(
    loader: type[_Library | _Source], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that goes through the loading is lost there, or aborts the process."""
    sent: Queue[tuple[int, int]] = Queue()
    monkeypatch.setattr("os.kill", lambda *what: sent.put(what))
    monkeypatch.setattr(chakrakit.commands, "_told", [])
    loader("name", "path").load(number)
    assert sent.get() == (os.getpid(), number)


@pytest.mark.parametrize(("lost", "again"), [(SystemExit(143), True), (ValueError(), False)])
def test_an_end_that_a_destructor_swallows_comes_again(
    lost: BaseException, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: Queue[tuple[int, int]] = Queue()
    monkeypatch.setattr("os.kill", lambda *what: sent.put(what))
    monkeypatch.setattr("threading.Timer.start", lambda timer: timer.function(*timer.args))
    chakrakit.commands._unless_lost(signal.SIGTERM, SimpleNamespace(exc_value=lost))
    assert sent.empty() is not again
    assert not again or sent.get() == (os.getpid(), signal.SIGTERM)


def test_a_command_told_to_end_ends_by_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakrakit.commands, "_told", [])
    monkeypatch.setattr("sys.unraisablehook", None)
    with pytest.raises(SystemExit, match="143"):
        chakrakit.commands._end(signal.SIGTERM, None)
    with pytest.raises(KeyboardInterrupt):
        chakrakit.commands._end(signal.SIGINT, None)


_WRITER = """
import os, signal, sys
from pathlib import Path
from chakrakit.commands import main
from chakrakit.trace.files import replacing
import chakrakit.machines
def slow(name):
    with replacing(Path(sys.argv[1])):
        os.kill(os.getpid(), int(sys.argv[2]))
        raise AssertionError
chakrakit.machines.load_machine = slow
main(["machines", "dgx-h100"])
"""


def _stopped(target: Path, number: signal.Signals, ignored: bool = False) -> tuple[int, str]:
    """The exit code and what is said of a command that a signal reaches while it writes."""
    words = [sys.executable, "-c", _WRITER, str(target), str(int(number))]
    before = signal.signal(number, signal.SIG_IGN) if ignored else signal.getsignal(number)
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        signal.signal(number, before)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_stopped_gives_the_code_of_the_signal_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    code, said = _stopped(tmp_path / "out", number)
    assert code == 128 + number
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` does."""
    assert "AssertionError" in _stopped(tmp_path / "out", signal.SIGHUP, ignored=True)[1]
