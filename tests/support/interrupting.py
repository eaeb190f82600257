"""Commands stopped by signals at random moments: what is left must be the old output or the new one.

    python tests/support/interrupting.py --signals 500

Every command first makes its new output undisturbed. Then it is started again and again on top of the old one
in a process of its own, and stopped after a random part of the time it needs; one signal in five goes to one
of its workers, where it has any. Afterwards the output must be the old or the new one, file by file, nothing
may lie beside it, and no process may be left. After SIGKILL hidden temporaries may lie there, until the
command runs once more. A command that only prints leaves nothing at all.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_GRACE_S = 20.0
_UP_S = 4.0
"""In which a command that serves has begun to, and signals reach all of its beginning."""
_TO_A_WORKER = 0.2
_OUR_TRACEBACK = re.compile(r'^\s+File "[^"]*/chakrakit/', re.MULTILINE)
Prints = dict[str, str]
"""Files by name, each with a hash of its bytes."""


@dataclass(frozen=True)
class Command:
    """A command that writes. `{in}` is a folder of inputs, `{out}` the folder it writes into."""

    name: str
    words: tuple[str, ...]
    old: Callable[[Path], object] | None = None
    """Makes the output that is there before; by default there is none."""
    varies: bool = False
    """Two runs differ, as measurements do: then the new output is known by its names of files."""
    resumes: bool = False
    """What is done is kept, or is steps of which each is whole: a second run ends with the new output."""
    prints: bool = False
    """It writes no file."""
    serves: bool = False
    """It goes on until it is stopped, and writes no file."""


@dataclass
class Bench:
    """A command, its inputs, the output before and the output after."""

    command: Command
    inputs: Path
    folder: Path
    grace_s: float = _GRACE_S
    """In which the processes of a command are gone once it has ended."""
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out, self.kept, self.scratch = (self.folder / n for n in ("out", "old", "tmp"))
        for place in (self.out, self.kept, self.scratch):
            place.mkdir(parents=True)
        if self.command.old is not None:
            self.command.old(self.kept)
        self.before = prints(self.kept)
        self._quiet, self._open = os.pipe()  # standard input that stays open and says nothing
        self._restore()
        self.after, self.seconds = self.before, _UP_S
        if not self.command.serves:
            self._undisturbed()

    def _undisturbed(self) -> None:
        begun = time.monotonic()
        code = _wait(self.start(), _GRACE_S * 10)
        self.seconds = time.monotonic() - begun
        self.after = prints(self.out)
        if code != 0 or (self.after == self.before) is not self.command.prints:
            raise RuntimeError(f"{self.command.name} ends with {code}:\n{self.said()}")

    def _restore(self) -> None:
        shutil.rmtree(self.out)
        shutil.copytree(self.kept, self.out, symlinks=True)

    def start(self) -> int:
        """The command in a session of its own; gives its process."""
        process = os.fork()
        if not process:
            try:
                self._be_the_command()
            finally:  # never back into what the parent was doing
                os._exit(1)
        return process

    def _be_the_command(self) -> None:
        os.setsid()
        _forget_ends()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.scratch)
        os.dup2(self._quiet, 0)
        os.close(self._open)
        told = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(told, 1)
        os.dup2(told, 2)
        places = {"{in}": str(self.inputs), "{out}": str(self.out)}
        _run([_filled(word, places) for word in self.command.words])

    def said(self) -> str:
        """What the command printed last."""
        return (self.folder / "said").read_text(errors="replace")[-2000:]

    def interrupt(self, number: signal.Signals, part: float, to_worker: bool = False) -> None:
        """Stops the command, or a worker of it, after a part of its time, and notes what is wrong then."""
        self._restore()
        process = self.start()
        time.sleep(part * self.seconds)
        workers = sorted(set(_members(process)) - {process}) if to_worker else []
        with contextlib.suppress(ProcessLookupError):
            os.kill(workers[0] if workers else process, number)
        # A worker's death is the command's own affair: it may go on to its end.
        code = _wait(process, _GRACE_S * (10 if workers and not self.command.serves else 1))
        when = f"{self.command.name}, {number.name} {'to a worker ' if workers else ''}after {part:.3f} of it"
        if code is None and not (workers and self.command.serves):
            self.problems.append(f"{when}: goes on and on")
        self._check(process, number, when)

    def _check(self, session: int, number: signal.Signals, when: str) -> None:
        left = _left_running(session, self.grace_s)
        if left:
            self.problems.append(f"{when}: still running: {left}")
        if _OUR_TRACEBACK.search(
            self.said()
        ):  # a launcher that is told to end prints one of its own
            self.problems.append(f"{when}: {self.said()}")
        found = prints(self.out)
        hidden = {n for n in found if _is_hidden(n)}
        tidy = {n: p for n, p in found.items() if n not in hidden}
        if self.command.resumes:
            _wait(self.start(), _GRACE_S * 10)
            tidy = {n: p for n, p in prints(self.out).items() if not _is_hidden(n)}
        if not self._is_whole(tidy):
            self.problems.append(
                f"{when}: neither old nor new: {_differences(tidy, self.before, self.after)}; it said "
                f"{self.said()[-300:]!r}"
            )
        lying = sorted(hidden | set(prints(self.scratch)))
        if lying and number != signal.SIGKILL:
            self.problems.append(f"{when}: lying about: {lying[:5]}")
        if lying and number == signal.SIGKILL:
            self._check_next(when)

    def _is_whole(self, found: Prints) -> bool:
        new = set(found) == set(self.after) if self.command.varies else found == self.after
        return found == self.before or new

    def _check_next(self, when: str) -> None:
        """What a kill left goes when the same command runs again."""
        _wait(self.start(), _GRACE_S * 10)
        lying = [n for n in prints(self.out) if _is_hidden(n)] + sorted(prints(self.scratch))
        if lying:
            self.problems.append(f"{when}, and once more: lying about: {lying[:5]}")
            shutil.rmtree(self.scratch)
            self.scratch.mkdir()


def _filled(word: str, places: dict[str, str]) -> str:
    for mark, place in places.items():
        word = word.replace(mark, place)
    return word


def _run(words: list[str]) -> None:
    """In the child: the command, as its script runs it."""
    from chakrakit.commands import main

    code: object = 1
    sys.argv[1:] = words
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        _end(code if isinstance(code, int) else 1)


def _forget_ends() -> None:
    """In the child: what its parent does at its end, such as removing its folders, is not the child's."""
    import atexit
    import weakref

    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def _end(code: int) -> None:
    """As Python ends: what registered for the end runs, and then the process is gone."""
    import atexit
    import threading

    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(_GRACE_S)
    atexit._run_exitfuncs()
    os._exit(code)


def _wait(process: int, seconds: float) -> int | None:
    """How a process ended; None if it had to be made to."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _left_running(session: int, grace_s: float) -> list[str]:
    """Processes of a session that are there after a moment of grace."""
    until = time.monotonic() + grace_s
    while (left := _members(session)) and time.monotonic() < until:
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    return list(left.values())


def _members(session: int) -> dict[int, str]:
    """The processes of a session that are not over, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")[:80]
    return found


def prints(folder: Path) -> Prints:
    """Every file below a folder, and every empty folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not any(path.iterdir()):
            found[name] = "empty"
    return found


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def _differences(found: Prints, old: Prints, new: Prints) -> list[str]:
    names = sorted(set(found) | set(old) | set(new))
    strange = [n for n in names if found.get(n) not in (old.get(n), new.get(n))]
    return (strange or [f"some of each ({len(found)} files)"])[:5]


def run(
    commands: list[Command], inputs: Path, signals: int, seed: int = 0, grace_s: float = _GRACE_S
) -> list[str]:
    """So many signals in all, in turn over the commands; gives what went wrong."""
    import chakrakit.commands  # noqa: F401 - so that children spend their time on the work

    rng = Random(seed)
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        benches = [Bench(c, inputs, Path(folder, c.name), grace_s) for c in commands]
        for number in range(signals):
            bench = benches[number % len(benches)]
            to_worker = rng.random() < _TO_A_WORKER
            bench.interrupt(rng.choice(SIGNALS), rng.random() * 1.1, to_worker)
        for bench in benches:
            problems += bench.problems
    return problems


def main() -> int:
    """The command line; 1 if anything went wrong."""
    from support.other_commands import OTHERS
    from support.writing_commands import COMMANDS, WITH_PYTORCH, make_inputs

    every = COMMANDS | OTHERS | WITH_PYTORCH
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "commands", nargs="*", help=f"of {', '.join(every)}; all that need no PyTorch by default"
    )
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--grace", type=float, default=5.0, help="seconds that processes may stay")
    given = parser.parse_args()
    chosen = [every[name] for name in given.commands or COMMANDS | OTHERS]
    with tempfile.TemporaryDirectory() as inputs:
        make_inputs(Path(inputs))
        problems = run(chosen, Path(inputs), given.signals, given.seed, given.grace)
    print(f"{given.signals} signals over {len(chosen)} commands, {len(problems)} problems")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
