"""Runs any implementation on the cases: a command that prints what it read as JSON."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.parallel import run_kept
from chakrakit.results import Result
from chakrakit.trace.conformance.cases import CASES, Case, facts_of, write_cases
from chakrakit.trace.files import scratch

_SECONDS = 60.0
"""For one case; the largest has 301 nodes."""
PLACE = "{}"
"""Where the file's path stands in a command; at its end if it stands nowhere."""


class Verdict(Result, msgspec.Struct):
    """One case: what was read otherwise than expected, by name: (expected, read)."""

    name: str
    question: str
    passed: bool
    wrong: dict[str, tuple[Any, Any]] = {}
    error: str = ""


class ConformanceResult(Result, msgspec.Struct):
    """All cases."""

    passed: int
    cases: list[Verdict]


def check(command: Sequence[str] = ()) -> ConformanceResult:
    """Every case, read by a command, or by this implementation where none is given.

    The command gets the path of an `.et` file and prints an object with any of the facts; what it leaves
    out is not judged, but something must be there.
    """
    with scratch("chakra-conformance") as folder:
        paths = write_cases(folder / "cases")
        verdicts = [_verdict(case, paths[case.name], command) for case in CASES]
    return ConformanceResult(sum(v.passed for v in verdicts), verdicts)


def _verdict(case: Case, path: Path, command: Sequence[str]) -> Verdict:
    expected = msgspec.to_builtins(case.expected)
    try:
        said = _said(command, path) if command else msgspec.to_builtins(facts_of(path))
    except ConfigError as error:
        return Verdict(case.name, case.question, False, {}, str(error))
    judged = {name: said[name] for name in expected if name in said}
    wrong = {
        name: (expected[name], value) for name, value in judged.items() if value != expected[name]
    }
    silent = "" if judged else f"printed none of {', '.join(expected)}"
    return Verdict(case.name, case.question, not wrong and not silent, wrong, silent)


def _said(command: Sequence[str], path: Path) -> dict[str, Any]:
    words = [word.replace(PLACE, str(path)) for word in command]
    words = words if words != list(command) else [*words, str(path)]
    try:
        done = run_kept(words, _SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{words[0]}: {error}") from None
    if done.returncode:
        last = done.stderr[-200:].decode("utf-8", "replace").strip()
        raise ConfigError(f"ended with {done.returncode}: {last}")
    try:
        return msgspec.json.decode(done.stdout, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"did not print one JSON object: {error}") from None
