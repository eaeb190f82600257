"""What a format's files are read as, valid ones and damaged ones: their figures, or the refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chakrakit.errors import ChakraError
from fuzz.formats import FORMATS
from fuzz.worker import Bench
from support.commands import chakra
from support.kept_results import checksum, compare, condensed

_NUMBER = re.compile(rb"(?<![\w.-])-?\d+(\.\d+)?(?![\w.])")

Outcome = Callable[[Path], object]
"""Figures of what lies in a folder, or what is said to it."""


def damages(first: int, every: int) -> pytest.MarkDecorator:
    """Parametrizes `numbers` of a test of damaged files: the first ones, and for `make test` the others."""
    others = pytest.param(range(first, every), id="others", marks=pytest.mark.slow)
    return pytest.mark.parametrize("numbers", [pytest.param(range(first), id="first"), others])


def compare_outcomes(
    name: str, folder: Path, outcome: Outcome, numbers: range, kept_as: str = ""
) -> None:
    """The outcomes of a format's files with these damages equal those kept under its name."""
    others = "-others" if numbers.start else ""
    compare(f"damaged-{kept_as or name}{others}", _outcomes(name, folder, outcome, numbers))


def _outcomes(name: str, folder: Path, outcome: Outcome, damaged: range) -> dict[str, Any]:
    """The figures of a format's valid files, and of damaged ones by number a checksum or the refusal."""
    bench = Bench(replace(FORMATS[name], first=lambda _: None), folder, lambda _: None)
    results: dict[str, Any] = {"valid": _without_path(outcome(bench.seeds), bench.seeds)}
    for number in damaged:
        damage = bench.mutated if number % 3 == 0 else partial(_with_another_number, bench)
        with damage(number):
            results[str(number)] = _outcome(bench.seeds, outcome)
    return results


@contextmanager
def _with_another_number(bench: Bench, number: int) -> Iterator[None]:
    """The files with one number in a text changed, so that what they say is odd and their form is right."""
    rng = Random(number)
    texts = {file: file.read_bytes() for file, _ in bench.files}
    file = rng.choice(list(texts))
    places = [m.span() for m in _NUMBER.finditer(texts[file])]
    if b"\0" in texts[file] or not places:
        with bench.mutated(number):
            yield
        return
    start, end = rng.choice(places)
    other = rng.choice((b"0", b"1", b"2", b"7", b"-1", b"0.5", b"1000000"))
    file.write_bytes(texts[file][:start] + other + texts[file][end:])
    try:
        yield
    finally:
        file.write_bytes(texts[file])


def _outcome(folder: Path, outcome: Outcome) -> str:
    try:
        figures = condensed(_without_path(outcome(folder), folder))
    except ChakraError as refusal:
        return str(refusal).replace(str(folder), "")
    if isinstance(figures, str):
        return figures
    return checksum(json.dumps(figures, sort_keys=True, default=str))


def _without_path(figures: object, folder: Path) -> Any:
    """Figures as JSON has them, wherever the folder is."""
    return json.loads(json.dumps(figures, default=str).replace(str(folder), ""))


def printed(command: str) -> Outcome:
    """The outcome of a command line: what it prints with `--json` and writes, or how it refuses.

    `{in}` stands for the folder and `{out}` for a new file.
    """

    def outcome(folder: Path) -> object:
        out = folder.parent / "out"
        words = command.replace("{in}", str(folder)).replace("{out}", str(out)).split()
        done = chakra(*words, "--json")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        text = (done.stdout or done.stderr).replace(str(folder.parent), "")
        written = json.loads(out.read_text()) if out.is_file() else None
        out.unlink(missing_ok=True)
        return [json.loads(text), written] if done.exit_code == 0 else text

    return outcome
