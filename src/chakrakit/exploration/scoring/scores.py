"""Scoring a simulator on a library of traces: how far its steps are from those that were timed.

A simulator is any command. It gets the path of a bundle and prints the step that it predicts: a JSON object
with `step_ns` (or `makespan_ns`, where it knows no steps), or a number of nanoseconds in its last line. Ours
is a command like any other, and is tried first; then a constant rate: all FLOPs of a step at the device's
peak for 16 bits; then ASTRA-sim's own program, where it is given.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.exploration.scoring.astra_binary import astra_step
from chakrakit.machines import load_machine
from chakrakit.parallel import run_kept
from chakrakit.results import Result
from chakrakit.trace.library import LibraryEntry, fetch, is_url, read_index
from chakrakit.trace.storage import read

OURS = ("simulate", "{}", "--machine", "{machine}", "--compute", "measured", "--json")
"""Our simulator on a bundle, as recorded times and dependencies give it."""
OUR_NAME, RATE_NAME, ASTRA_NAME = "chakrakit", "constant rate", "ASTRA-sim"
_SECONDS = 600.0
"""For one bundle."""


class Score(Result, msgspec.Struct, frozen=True):
    """One simulator on one bundle; the error is a share of the truth."""

    simulator: str
    bundle: str
    truth_ns: float
    step_ns: float | None = None
    error: float | None = None
    failed: str = ""


class ScoreResult(Result, msgspec.Struct, frozen=True):
    """All scores, and each simulator's mean and largest error over what it could predict."""

    library: str
    scores: list[Score]
    mean_error: dict[str, float]
    worst_error: dict[str, float]
    failed: dict[str, int]

    def table_rows(self) -> Sequence[msgspec.Struct]:
        """The scores."""
        return self.scores


def score(
    library: str | Path, command: Sequence[str] = (), astra: str | None = None
) -> ScoreResult:
    """Our simulator, a constant rate and, where given, ASTRA-sim and a command, on all that was timed."""
    index = read_index(library)
    if is_url(index.source):
        raise ConfigError(f"{index.source} is not a folder; `chakra get` its bundles first")
    timed = [entry for entry in index.bundles if entry.step_ns > 0]
    if not timed:
        raise ConfigError(
            f"{index.source} lists no bundle with step_ns, so there is nothing to score"
        )
    paths = {e.name: Path(fetch(index, e.name, Path(index.source)).path) for e in timed}
    ours = [sys.executable, "-c", "from chakrakit.commands import main; main()", *OURS]
    scores = [_scored(OUR_NAME, e, lambda e: predicted(ours, e, paths[e.name])) for e in timed]
    scores += [_scored(RATE_NAME, e, lambda e: at_constant_rate(e, paths[e.name])) for e in timed]
    if astra is not None:
        scores += [
            _scored(ASTRA_NAME, e, lambda e: astra_step(astra, e.machine, paths[e.name], _SECONDS))
            for e in timed
        ]
    if command:
        name = Path(command[0]).name
        scores += [_scored(name, e, lambda e: predicted(command, e, paths[e.name])) for e in timed]
    return _summed(index.source, scores)


def _scored(simulator: str, entry: LibraryEntry, predict: Callable[[LibraryEntry], float]) -> Score:
    try:
        step = predict(entry)
    except ChakraError as error:
        return Score(simulator, entry.name, entry.step_ns, failed=str(error))
    return Score(simulator, entry.name, entry.step_ns, step, step / entry.step_ns - 1)


def _summed(library: str, scores: list[Score]) -> ScoreResult:
    errors: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    for one in scores:
        failed[one.simulator] = failed.get(one.simulator, 0) + bool(one.failed)
        if one.error is not None:
            errors.setdefault(one.simulator, []).append(abs(one.error))
    means = {name: sum(values) / len(values) for name, values in errors.items()}
    return ScoreResult(library, scores, means, {n: max(v) for n, v in errors.items()}, failed)


def predicted(command: Sequence[str], entry: LibraryEntry, path: Path) -> float:
    """The step that a command predicts; {} is the path (else it comes last), {machine} the machine."""
    words = [w.replace("{machine}", entry.machine) for w in command]
    words = [w.replace("{}", str(path)) for w in words] if "{}" in words else [*words, str(path)]
    try:
        done = run_kept(words, _SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{words[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        last = said[-1][:200] if said else "nothing said"
        raise ConfigError(f"{words[0]} ended with {done.returncode}: {last}")
    return _step(done.stdout.decode("utf-8", "replace"), words[0])


def _step(text: str, name: str) -> float:
    try:
        facts = msgspec.json.decode(text)
    except msgspec.DecodeError:
        facts = text.strip().splitlines()[-1] if text.strip() else ""
    if isinstance(facts, Mapping):
        facts = facts.get("step_ns") or facts.get("makespan_ns")
    try:
        step = float(facts)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} printed no step: give a JSON object with step_ns, or a number of nanoseconds"
        ) from None
    if not (math.isfinite(step) and step > 0):
        raise ConfigError(f"{name} printed {step} ns")
    return step


def at_constant_rate(entry: LibraryEntry, path: Path) -> float:
    """All FLOPs of a step at its device's peak for 16 bits, as on paper; of the slowest rank."""
    machine = load_machine(entry.machine)
    traces = read(path)
    slowest = 0.0
    for rank in traces.ranks:
        trace = traces.trace(rank)
        steps = max(1, len({s for s in trace.step.tolist() if s >= 0}))
        peaks = machine.device(rank % machine.size).peak
        peak = peaks.get("bf16") or max(peaks.values())
        slowest = max(slowest, float(trace.column("num_ops", 0).sum()) / steps / peak * 1e9)
    if not slowest:
        raise ConfigError(f"{entry.name} says no FLOPs")
    return slowest
