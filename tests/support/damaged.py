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

from chakrakit.errors import ChakraError
from fuzz.formats import FORMATS
from fuzz.worker import Bench
from support.commands import chakra
from support.kept_results import checksum, condensed

_NUMBER = re.compile(rb"(?<![\w.-])-?\d+(\.\d+)?(?![\w.])")

Outcome = Callable[[Path], object]
"""Figures of what lies in a folder, or what is said to it."""


def outcomes(name: str, folder: Path, outcome: Outcome, damaged: int) -> dict[str, Any]:
    """The figures of a format's valid files, and of so many damaged ones a checksum or the refusal."""
    bench = Bench(replace(FORMATS[name], first=lambda _: None), folder, lambda _: None)
    results: dict[str, Any] = {"valid": outcome(bench.seeds)}
    for number in range(damaged):
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
        figures = condensed(outcome(folder))
    except ChakraError as refusal:
        return str(refusal).replace(str(folder), "")
    if isinstance(figures, str):
        return figures
    return checksum(json.dumps(figures, sort_keys=True, default=str))


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
