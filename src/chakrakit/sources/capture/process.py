"""Captures ranks in separate processes, forked from one that has imported everything already."""

from __future__ import annotations

import gc
import linecache
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from chakrakit.errors import ChakraError
from chakrakit.parallel import end_with_parent
from chakrakit.sources.capture.recording import CapturedRank, CaptureError, is_library
from chakrakit.sources.capture.session import CaptureOptions, Session
from chakrakit.sources.capture.standins import Placeholder, WholePlaceholder
from chakrakit.trace.files import scratch


class CaptureRequest(msgspec.Struct, frozen=True):
    """A rank to capture; `mail` holds what earlier captured ranks sent."""

    rank: int
    options: CaptureOptions
    mail: dict[str, bytes]
    out: str
    quiet: bool = True


class Ranks:
    """Captures ranks with a function that runs each request in a separate process.

    Keeps what ranks sent one another for later ranks, and raises what a script failed with.
    """

    def __init__(
        self, options: CaptureOptions, run: Callable[[CaptureRequest], int], show: bool = True
    ) -> None:
        self.options, self._run, self._show = options, run, show
        self.mail: dict[str, bytes] = {}

    def __call__(self, rank: int, full: bool) -> CapturedRank:
        """A rank's recording: of the steps asked for if `full`, else of its first step."""
        options = self.options if full else msgspec.structs.replace(self.options, steps=(0, 1))
        with scratch("chakra-capture") as folder:
            out = str(folder / "recording")
            quiet = not self._show or rank > 0 or bool(self.mail)
            status = self._run(CaptureRequest(rank, options, self.mail, out, quiet))
            recording = _read(Path(out), rank, status)
        self.keep(recording)
        return recording

    def keep(self, recording: CapturedRank) -> None:
        """Keep what a rank sent; raise what it failed with."""
        self.mail.update(recording.mail)
        if recording.failure:
            where = f" (rank {recording.rank})" if recording.rank else ""
            raise CaptureError(f"{recording.failure}{where}")


def _read(path: Path, rank: int, status: int) -> CapturedRank:
    if not path.exists():
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        raise CaptureError(
            f"the process of rank {rank} ended with {how} before anything was recorded; "
            "run the script by itself to see why"
        )
    return msgspec.msgpack.decode(path.read_bytes(), type=CapturedRank)


def forked(run: Callable[[], None]) -> Callable[[CaptureRequest], int]:
    """A function that runs a request in a child process and returns its status, negative for a signal."""

    def run_request(request: CaptureRequest) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            end_with_parent()
            _compute_alone()
            record(request, run)
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        return os.waitstatus_to_exitcode(status)

    return run_request


def _compute_alone() -> None:
    """Let PyTorch compute in this thread alone: its others did not come along when the process was forked."""
    import torch

    torch.set_num_threads(1)


def record(request: CaptureRequest, run: Callable[[], None]) -> None:
    """In the child: run the program as this rank, write what was recorded, and end the process."""
    silence(request.quiet)
    gc.freeze()  # what was imported lives until the end, and need not be looked at again
    session = Session(request.options, request.rank, request.mail)
    failure = ""
    try:
        with session:
            run()
    except BaseException as error:
        failure = failure_of(error, request.options.device)
    finish(session, failure, request.out)


def finish(session: Session, failure: str, out: str) -> None:
    """Write the recording and end the process."""
    try:
        Path(out).write_bytes(msgspec.msgpack.encode(recorded(session, failure)))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def recorded(session: Session, failure: str) -> CapturedRank:
    """The session's recording, or a recording that says why there is none."""
    if not failure:
        try:
            recording = session.recording()
        except Exception as error:
            failure = _unmade(error)
        else:
            if recording.steps and recording.ops:
                return recording
            failure = _no_operator(session) if recording.steps else _no_step(session)
    return CapturedRank(rank=session.rank, world=session.options.ranks, failure=failure)


def _unmade(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the program ran, and making its trace failed ({type(error).__name__}: {error}; "
        f"{Path(place.filename).name}:{place.lineno}): an error of chakrakit; please report the script"
    )


def _no_operator(session: Session) -> str:
    named = session.options.step_ends
    ends = f"{named} returned" if named else "the optimizer stepped"
    return (
        f"nothing was computed between the times that {ends}, so that there is nothing to trace; "
        "name another function with --step-ends, by its module too (train.sample), or other steps"
    )


def _no_step(session: Session) -> str:
    steps, window = session.reached, session.options.steps or (0, 1)
    named = session.options.step_ends
    called = f"{named} was not called" if named else "no optimizer's step() was called"
    if steps == 0:
        return (
            f"the script ended without a step: {called}. Name the function whose return ends a step with "
            "--step-ends CALL, such as generate"
        )
    return (
        f"the script took {steps} {'step' if steps == 1 else 'steps'} and --steps {window[0]}:{window[1]} "
        f"begins at step {window[0]}; ask for steps before {steps}"
    )


def failure_of(error: BaseException, device: str = "") -> str:
    """An error as text: chakrakit's as they are, the script's with the line it came from.

    A script that found no GPU, as none was named, fails in many ways, so that the cure stands with all.
    """
    if isinstance(error, ChakraError):
        return str(error)
    if isinstance(error, SystemExit):
        return (
            ""
            if error.code in (None, 0)
            else f"the script ended itself with exit code {error.code}"
        )
    script_frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not is_library(f.filename)
    ]
    line = (
        f"{Path(script_frames[-1].filename).name}:{script_frames[-1].lineno}: "
        if script_frames
        else ""
    )
    if isinstance(error, TypeError) and (reading := _reading_line(error)):
        return (
            f"{line}a number that {reading} reads from the device is used where PyTorch or Python needs its "
            f"value, and nothing was computed; declare it with --value {reading}=NUMBER"
        )
    message = "".join(traceback.format_exception_only(error)).strip()
    cure = "\nno GPU was named, and PyTorch reports none: name one with --device h100"
    asks_for_one = not device and _OF_A_GPU.search(message)
    return f"{line}the script failed\n{message}{cure if asks_for_one else ''}"


def _reading_line(error: TypeError) -> str:
    """The line that read what stands in for a number, where the line that failed names it; else ""."""
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_code.co_filename)
    ]
    if not frames:
        return ""
    frame, line = frames[-1]
    names = re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, line))
    for value in (frame.f_locals.get(name, frame.f_globals.get(name)) for name in names):
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (Placeholder, WholePlaceholder)):
                return each.line
    return ""


_OF_A_GPU = re.compile("cuda|gpu|accelerator|nvidia|nccl", re.IGNORECASE)
"""Words of errors that programs end with where they ask for a GPU and find none."""


def silence(quiet: bool) -> None:
    """Send the script's standard output to standard error, or with `quiet` both to nowhere."""
    sys.stdout.flush()
    target = os.open(os.devnull, os.O_WRONLY) if quiet else os.dup(2)
    os.dup2(target, 1)
    if quiet:
        os.dup2(target, 2)
