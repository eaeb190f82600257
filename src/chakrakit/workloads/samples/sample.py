"""One sample, samples drawn without end, and samples from a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chakrakit.configuration import read_text_file
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Step
from chakrakit.workloads.samples.lengths import document_lengths

_LARGEST_FILE = 256 << 20
"""Bytes of a table of samples: ten million lines of 25 letters."""
_MOST = 2**31
"""Tokens of one sample: a length is a number of 32 bits."""
_DRAWN_AT_ONCE = 1024
"""Lengths drawn at once, since a draw of NumPy's takes about as long for one. Assumed."""


class Sample(NamedTuple):
    """What is known of one sample. `cost` is its work against another sample of its length."""

    number: int
    length: int
    modality: str = ""
    cost: float = 1.0


def sample_stream(step: Step, longest: int) -> Iterator[Sample]:
    """The samples of a step in order, none longer than `longest`: a file's, or drawn without end."""
    if step.samples.sample_file:
        yield from read_samples(step.samples.sample_file, longest)
        return
    rng = np.random.default_rng((step.seed, 3))
    number = 0
    while True:
        for length in _drawn(step, rng):
            yield Sample(number, int(min(length, longest)))
            number += 1


def _drawn(step: Step, rng: np.random.Generator) -> list[float]:
    if step.samples.sizes:
        drawn: list[float] = rng.choice(np.array(step.samples.sizes), _DRAWN_AT_ONCE).tolist()
        return drawn
    mean = step.lengths.mean or step.seq
    lengths: list[float] = document_lengths(step.lengths, mean, _DRAWN_AT_ONCE, rng).tolist()
    return lengths


def read_samples(path: str, longest: int = _MOST) -> list[Sample]:
    """The samples of a CSV file with a header, or of JSON lines: `length`, and `modality` and `cost`."""
    text = read_text_file(path, _LARGEST_FILE)
    rows = _json_lines(text, path) if text.lstrip()[:1] == "{" else _csv_rows(text, path)
    samples = [_sample(i, line, row, path, longest) for i, (line, row) in enumerate(rows)]
    if not samples:
        raise ConfigError(f"{path}: it has no samples; give one per line, with its length")
    return samples


def _json_lines(text: str, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, content in enumerate(text.splitlines(), 1):
        if content.strip():
            try:
                yield line, msgspec.json.decode(content, type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError) as error:
                raise ConfigError(f"{path}:{line}: not a sample in JSON: {error}") from None


def _csv_rows(text: str, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text))
    if "length" not in (reader.fieldnames or ()):
        listed = ", ".join(reader.fieldnames or ())[:80]
        raise ConfigError(
            f"{path}:1: no column length; the first line should name length, modality and cost, and says "
            f"{listed!r}"
        )
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _sample(number: int, line: int, row: Mapping[str, Any], path: str, longest: int) -> Sample:
    for name in row:
        if name not in ("length", "modality", "cost"):
            raise ConfigError(
                f"{path}:{line}: a sample has no {str(name)[:40]!r}; it has length, modality and cost"
            )
    try:
        length, cost = int(row["length"]), float(row.get("cost") or 1.0)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{path}:{line}: length should be a whole number and cost a number, not "
            f"{str(row.get('length'))[:20]!r} and {str(row.get('cost'))[:20]!r}"
        ) from None
    if not 1 <= length <= longest:
        raise ConfigError(
            f"{path}:{line}: a sample of {length:,}; lengths go from 1 to {longest:,} here (seq, budget)"
        )
    if not 0 < cost < 1e6:
        raise ConfigError(f"{path}:{line}: cost {cost}; it is a factor between 0 and a million")
    return Sample(number, length, str(row.get("modality") or ""), cost)
