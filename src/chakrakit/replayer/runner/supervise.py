"""All ranks of a replay on this machine: started together, and none left when one fails.

Every rank has a pipe to the process that started it. A line in it says which rank failed; its end says
that the starter is gone. In both cases the rank ends itself, whatever it is waiting for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from .limits import ReplayError

_POLL_S = 0.02
_GRACE_S = 3.0
PIPE = "CHAKRA_REPLAY_PIPE"
FOLLOWED = "; this rank ends with it"
_TOLD, _ORPHANED = 3, 4


def supervise(folder: Path, ranks: int, settings: dict[str, Any]) -> int:
    """Run all ranks and wait for them; the first failure ends them all."""
    with tempfile.TemporaryDirectory(prefix="chakra-replay-") as scratch:
        workers = [_Worker(folder, r, ranks, scratch, settings) for r in range(ranks)]
        try:
            return _wait(workers)
        finally:
            for worker in workers:
                worker.end()


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
    for worker in workers:
        if worker is not failed:
            worker.tell(f"rank {failed.rank} {how}")
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(w.process.poll() is None for w in workers):
        time.sleep(_POLL_S)
    raise ReplayError(f"rank {failed.rank} {how}; the replay was ended")


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
        self, folder: Path, rank: int, ranks: int, scratch: str, settings: dict[str, Any]
    ) -> None:
        self.rank = rank
        reader, self._pipe = os.pipe()
        os.set_inheritable(reader, True)
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
        ]
        places = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
        environment = {**os.environ, **{k: str(v) for k, v in places.items()}}
        environment |= {PIPE: str(reader), "CHAKRA_REPLAY_STORE": f"{scratch}/store"}
        self.process = subprocess.Popen(
            command, env=environment, pass_fds=[reader], stdin=subprocess.DEVNULL
        )
        os.close(reader)

    def tell(self, message: str) -> None:
        """Say which rank failed."""
        with contextlib.suppress(OSError):  # it may be gone already
            os.write(self._pipe, message.encode() + b"\n")

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


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
