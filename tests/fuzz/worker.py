"""Runs mutated inputs in this process: an error on purpose is success, everything else is a finding.

A hang or a crash ends the process; who started it reads from the last line how far it came.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import json
import math
import os
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import click
import pyarrow as pa

from chakrakit.commands import main
from chakrakit.errors import ChakraError
from fuzz.fuzz_format import Format, Step

Report = Callable[[dict[str, Any]], object]

HANG_S = 10
"""Of processor time: a busy machine is no finding."""
_ASLEEP_S = 120
"""Of any time: what waits for something that never comes."""
_MEMORY = 500 << 20
_MOST = 4 << 30
_QUIET = (ChakraError, OSError, click.ClickException, click.exceptions.Exit, click.Abort)


def work(jobs: list[tuple[Format, range]], report: Report) -> None:
    """Runs the numbered cases of every format; reports each finding, and where it is."""
    for format_, numbers in jobs:
        with _folder() as folder:
            Bench(format_, folder, report).run(numbers)


class Bench:
    """The seeds of one format in a folder, of which one file is changed at a time."""

    def __init__(self, format_: Format, folder: Path, report: Report) -> None:
        self.format, self.folder, self.report = format_, folder, report
        self.seeds, self.out = folder / "in", folder / "out"
        self.seeds.mkdir()
        format_.seed(self.seeds)
        self.files = sorted(
            (file, mutate)
            for pattern, mutate in format_.mutate.items()
            for file in self.seeds.glob(pattern)
        )
        if not self.files:
            raise ValueError(f"{format_.name}: no seed file matches {list(format_.mutate)}")
        self._do(format_.first)  # valid seeds must pass, or nothing is tested
        self._memory = _Memory()

    def run(self, numbers: range) -> None:
        """Runs the numbered cases."""
        asleep = _Asleep()
        for number in numbers:
            self.report({"format": self.format.name, "at": number})
            _limit_memory()
            asleep.watch()
            with _watched():
                found = self.case(number)
            if found:
                self.report({"format": self.format.name, "at": number, **found})
        asleep.end()

    def case(self, number: int) -> dict[str, str] | None:
        """Runs one case; gives what is wrong with how it ended."""
        with self.mutated(number) as (rng, size):
            before = self._memory.begin()
            found = self._outcome(rng)
            grown = _peak() - before
            if found is None and grown > 3 * size + _MEMORY:
                return {"kind": "memory", "where": f"{grown >> 20} MB for {size} bytes"}
            return found

    @contextlib.contextmanager
    def mutated(self, number: int) -> Iterator[tuple[Random, int]]:
        """The folder with a file or two changed, and then as it was."""
        rng = Random(f"{self.format.name} {number}")
        chosen = rng.sample(self.files, 2 if len(self.files) > 1 and rng.random() < 0.15 else 1)
        valid = {file: file.read_bytes() for file, _ in chosen}
        way = rng.random()
        for file, mutate in chosen:
            if len(chosen) == 2 and way < 0.3:  # what another file of the set says
                file.write_bytes(rng.choice(self.files)[0].read_bytes())
            elif len(chosen) == 2 and way < 0.4:
                file.unlink()
            else:
                file.write_bytes(mutate(rng, valid[file]))
        try:
            yield rng, sum(file.stat().st_size for file in valid if file.exists())
        finally:
            for file, content in valid.items():
                file.write_bytes(content)
            _remove(self.out)

    def _outcome(self, rng: Random) -> dict[str, str] | None:
        try:
            self._steps(rng)
        except _QUIET:
            return None
        except SystemExit as end:
            return None if end.code in (0, 1, 2, None) else _finding(end)
        except (Exception, RecursionError) as error:
            return _finding(error)
        return None

    def _steps(self, rng: Random) -> None:
        self._do(self.format.first)
        for steps in (self.format.then, self.format.holds):
            if steps and rng.random() < self.format.share:
                with contextlib.suppress(*_QUIET):
                    self._do(rng.choice(steps))
                _remove(self.out)

    def _do(self, step: Step) -> None:
        if not isinstance(step, str):
            step(self.seeds)
            return
        for line in step.split(" && "):
            placed = line.replace("{in}", str(self.seeds)).replace("{out}", str(self.out))
            main(shlex.split(placed), standalone_mode=False)


def _finding(error: BaseException) -> dict[str, str]:
    """An error that nobody meant to raise, by the innermost line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "chakrakit" in f.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}"
    text = "".join(traceback.format_exception(error))
    return {"kind": type(error).__name__, "where": place, "said": str(error)[:200], "trace": text}


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """A hang says where it is and ends the process."""
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class _Asleep:
    """Ends the process, with where it is, when nothing has gone on for `_ASLEEP_S`, or up to a tenth less.

    Each watch is a thread: one for every case would take as long as reading a small file.
    """

    def __init__(self) -> None:
        self._since = -math.inf

    def watch(self) -> None:
        """A case begins."""
        if time.monotonic() > self._since + _ASLEEP_S / 10:
            self._since = time.monotonic()
            faulthandler.dump_traceback_later(_ASLEEP_S, exit=True)

    def end(self) -> None:
        """All cases are done."""
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=shared) as folder:
        yield Path(folder)


def _remove(path: Path) -> None:
    for found in path.parent.glob(f"*{path.name}*"):
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def _limit_memory() -> None:
    """So much more than now, not counting addresses that the threads of libraries reserve for each core."""
    resource.setrlimit(resource.RLIMIT_DATA, (_pages(_DATA) + _MOST, resource.RLIM_INFINITY))


_LIBC = ctypes.CDLL(None)
_KEPT = 64 << 20


class _Memory:
    """What one input takes beyond what the process held before it."""

    def __init__(self) -> None:
        self._floor = _pages(_RESIDENT)

    def begin(self) -> int:
        """From here on `_peak` is that of one input; gives what the process holds already."""
        if _pages(_RESIDENT) > self._floor + _KEPT:
            gc.collect()
            pa.default_memory_pool().release_unused()
            _LIBC.malloc_trim(0)  # what earlier inputs freed would hide what this one takes
            self._floor = _pages(_RESIDENT)
        Path("/proc/self/clear_refs").write_text("5")
        return _pages(_RESIDENT)


_RESIDENT, _DATA = 1, 5


def _pages(field: int) -> int:
    """Bytes by a field of statm."""
    return int(Path("/proc/self/statm").read_text().split()[field]) * resource.getpagesize()


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return 0


def main_of_worker(jobs: list[tuple[Format, range]]) -> None:
    """The worker's process: findings go to where standard output was, and commands print to nowhere."""
    faulthandler.enable()  # a crash of native code says where Python was
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    work(jobs, lambda said: lines.write(json.dumps(said) + "\n"))
    sys.stdout = lines  # nothing is flushed to a closed place at the end
