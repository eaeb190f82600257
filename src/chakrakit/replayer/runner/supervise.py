"""Ranks of a replay on this machine, each in a process of its own; none is left when one fails.

Every rank has a pipe to the process that started it. A line in it says which rank failed; its end says that
the starter is gone. In both cases the rank ends itself, whatever it is waiting for. Where a rank is in its
plan it writes into memory that its starter sees too, so that the starter can say what ended it.

What a rank says is not trusted either: it has no terminal, and its starter passes its lines on as plain text.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from .confine import bare_environment
from .limits import ReplayError, read_plan

_POLL_S = 0.02
"""Between two looks at the ranks: unnoticeable beside a replay, whose processes take a second to start."""
_GRACE_S = 3.0
"""Seconds for other ranks to say where they stood: six times what they wait to hear of it."""
PIPE, _POSITION = "CHAKRA_REPLAY_PIPE", "CHAKRA_REPLAY_POSITION"
STORE = "CHAKRA_REPLAY_STORE"
FOLLOWED = "; this rank ends with it"
_TOLD, _ORPHANED = 3, 4
_LONGEST_LINE, _MOST_SAID = 1 << 12, 1 << 20
"""Bytes of what a rank says that are passed on, of a line and of all."""


def supervise(folder: Path, ranks: list[dict[str, str]], settings: dict[str, Any]) -> int:
    """Run ranks, each with these variables, and wait for them; the first failure ends them all."""
    if settings["out"].is_symlink():
        raise ReplayError(
            f"{settings['out']} is a link, and ranks write where it leads; give --out"
        )
    settings["out"].mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chakra-replay-") as scratch:
        workers = [_Worker(folder, rank, scratch, settings) for rank in ranks]
        try:
            return _wait(workers)
        finally:
            for worker in workers:
                worker.end()


def local_ranks(count: int) -> list[dict[str, str]]:
    """The variables of all ranks of a replay on this machine, as a launcher would set them."""
    world = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    return [{**world, "RANK": str(r), "LOCAL_RANK": str(r)} for r in range(count)]


def _wait(workers: list[_Worker]) -> int:
    while True:
        codes = [w.process.poll() for w in workers]
        failed = [w for w, c in zip(workers, codes, strict=True) if c not in (None, 0)]
        if failed:
            # One that was killed comes first: others may have noticed already.
            return _report(min(failed, key=lambda w: w.process.returncode >= 0), workers)
        if all(c == 0 for c in codes):
            return 0
        time.sleep(_POLL_S)


def _report(failed: _Worker, workers: list[_Worker]) -> int:
    """Tell the others who failed, give them a moment to say so, and say it here."""
    how = describe_exit(failed.process.returncode)
    if failed.process.returncode < 0:
        how += failed.place()
    for worker in workers:
        if worker is not failed:
            worker.tell(f"rank {failed.rank} {how}")
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(w.process.poll() is None for w in workers):
        time.sleep(_POLL_S)
    cure = _CURES.get(-failed.process.returncode, "")
    raise ReplayError(f"rank {failed.rank} {how}; the replay was ended{cure}")


_OTHERWISE = "; chakra replay --mode emulate calls no operators"
_TOO_LONG = f", since it took more processor time than --timeout lets a step take{_OTHERWISE}"
_CURES: dict[int, str] = {
    **dict.fromkeys((signal.SIGPROF, signal.SIGXCPU), _TOO_LONG),
    **dict.fromkeys((signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT), _OTHERWISE),
}
"""What to do about a rank that ended so."""


def describe_exit(code: int) -> str:
    """`was killed by SIGKILL`, or `ended with code 2`."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class _Worker:
    """One rank's process, and the pipe through which it is told of failures."""

    def __init__(
        self, folder: Path, rank: dict[str, str], scratch: str, settings: dict[str, Any]
    ) -> None:
        self.rank, self._folder = int(rank["RANK"]), folder
        reader, self._pipe = os.pipe()
        os.set_inheritable(reader, True)
        home = Path(scratch) / f"rank_{self.rank}"
        home.mkdir()
        position = home / "position"
        position.write_bytes(bytes(_WORDS * 4))
        self._position = os.open(position, os.O_RDONLY)  # whatever the rank puts in its place
        command = [
            sys.executable,
            str(folder / "run.py"),
            "--worker",
            "--out",
            str(settings["out"]),
            "--iterations",
            str(settings["iterations"]),
            "--warmup",
            str(settings["warmup"]),
            "--timeout",
            str(settings["timeout_s"]),
            *(() if settings["profile"] else ("--no-profile",)),
            *(("--allow-generated-code",) if settings.get("generated") else ()),
        ]
        environment = bare_environment({**os.environ, **rank}, str(home))
        environment |= {PIPE: str(reader), _POSITION: str(position)}
        if "MASTER_ADDR" not in environment:  # no launcher: they meet in a file
            environment[STORE] = f"{scratch}/store"
        self.process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=[reader],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal takes commands from those in its session
        )
        os.close(reader)
        self._said = threading.Thread(target=_pass_on, args=(self.process.stdout,), daemon=True)
        self._said.start()

    def place(self) -> str:
        """Where in its plan it was when it ended: ` in step 3 (aten::mm)`."""
        numbers = os.pread(self._position, _WORDS * 4, 0)
        if len(numbers) < _WORDS * 4:
            return ""
        iteration, step = memoryview(numbers).cast("i")
        if iteration:
            return f" in iteration {iteration}"
        try:
            what = read_plan(self._folder / f"plan_{self.rank}.json.gz")["steps"][step - 1]
        except (ReplayError, LookupError):
            return ""
        return f" in step {step - 1} ({what.get('op', what['do'])})" if step else ""

    def tell(self, message: str) -> None:
        """Say which rank failed."""
        with contextlib.suppress(OSError):  # it may be gone already
            os.write(self._pipe, message.encode() + b"\n")

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._said.join()
        if self._pipe >= 0:
            os.close(self._pipe)
            os.close(self._position)
            self._pipe = -1


def _pass_on(stream: IO[bytes]) -> None:
    """Say what a rank says, line by line; after a while only listen."""
    left = _MOST_SAID
    for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
        if left > 0:
            say(line.decode(errors="replace").rstrip())
        left -= len(line)


def say(text: str) -> None:
    """A line on standard error, in one go: all ranks write there. Nothing in it steers a terminal."""
    plain = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(2, f"{plain}\n".encode())


_WORDS = 2
"""Numbers that say where a rank is: the iteration after the first, and the step of the first, both from 1
on."""


def shared_position() -> Any:
    """Two numbers that the starter can read, whatever becomes of this process; a list without a starter."""
    path = os.environ.pop(_POSITION, "")
    if not path:
        return [0] * _WORDS
    with Path(path).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), _WORDS * 4)).cast("i")


def watch_parent() -> None:
    """Begin to listen for failures of other ranks and for the end of the starter."""
    number = os.environ.pop(PIPE, "")
    if number:
        threading.Thread(target=_listen, args=(int(number),), daemon=True).start()


def _listen(pipe: int) -> None:
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        message = stream.read(4096)
    if message:
        text = f"error: {message.decode(errors='replace').strip()}{FOLLOWED}\n"
        os.write(2, f"rank {os.environ.get('RANK', '?')}: {text}".encode())
    os._exit(_TOLD if message else _ORPHANED)
