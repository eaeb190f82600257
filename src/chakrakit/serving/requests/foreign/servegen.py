"""ServeGen's description of one client: `chunk-N-trace.csv` with `chunk-N-dataset.json` beside it.

CSV without names: start of a window in s, requests a second, coefficient of variation of their gaps, the
family (Gamma, Weibull, or empty for a window without requests) and its two parameters. JSON: start of a
window → fields → a mapping from value to probability, written as Python would print it; it is parsed here by
its own small grammar and never evaluated. Of the fields input_tokens and output_tokens are used; others
(shares of reasoning, images) are not.

Requests are drawn: gaps with the window's rate and variation, lengths by the probabilities of the last
window of lengths before.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.configuration import read_json
from chakrakit.errors import FormatError
from chakrakit.serving.requests.stream import RequestStream, stream_of

_HEAD = re.compile(rb"\d+(\.\d+)?,[\d.eE+-]+,[\d.eE+-]+,(|Gamma|Weibull|gamma|weibull),")
_PAIR = re.compile(r"\s*(\d{1,9})\s*:\s*(\d{0,12}\.?\d{1,25}(?:e-?\d{1,3})?)\s*", re.IGNORECASE)
_MOST = 1_000_000
"""Requests that are drawn, of some 350 bytes each; a client of a day has some ten thousand."""
_MOST_MORE = 100_000
"""Gaps drawn beyond those expected, so that bursts do not end a window early: some megabytes at the most."""
_FIELDS = ("input_tokens", "output_tokens")
Lengths = tuple[Any, Any]
"""Values, and their probabilities."""


def is_servegen(head: bytes) -> bool:
    """Whether every line is a window of a client."""
    return _HEAD.match(head) is not None


def read_servegen(data: bytes, path: str, seed: int) -> RequestStream:
    """Requests drawn by what the client's file says."""
    rng = np.random.default_rng((seed, 13))
    times = _arrivals(_windows(data, path), rng, path)
    dataset = _dataset(Path(path), path)
    prompt, output = (_drawn(dataset, field, times, rng, path) for field in _FIELDS)
    note = f"{len(times):,} requests drawn by ServeGen's description of one client"
    return stream_of(
        times - times[0], np.maximum(prompt, 1), np.maximum(output, 1), where=path, notes=(note,)
    )


def _windows(data: bytes, path: str) -> list[tuple[float, float, float]]:
    """(start, rate, variation) of every window."""
    rows = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split(",")
        try:
            start, rate, variation = (float(w) for w in words[:3])
        except ValueError:
            raise FormatError(f"line {number}: {line[:40]!r} is not a window", path=path) from None
        if not (0 <= start < 1e9 and 0 <= rate < 1e7 and 0 <= variation < 1e6):
            raise FormatError(f"line {number}: a start, rate or variation out of range", path=path)
        rows.append((start, rate if len(words) > 3 and words[3] else 0.0, variation))
    return sorted(rows)


def _arrivals(windows: list[tuple[float, float, float]], rng: Any, path: str) -> Any:
    length = windows[1][0] - windows[0][0] if len(windows) > 1 else 600.0
    ends = [w[0] for w in windows[1:]] + [windows[-1][0] + length]
    expected = sum(
        rate * (end - start) for (start, rate, _), end in zip(windows, ends, strict=True)
    )
    if not 0 < expected <= _MOST:
        raise FormatError(
            f"{expected:,.0f} requests in all; between 1 and {_MOST:,} are drawn", path=path
        )
    drawn = [
        start + np.cumsum(_gaps(rate, variation, end - start, rng))
        for (start, rate, variation), end in zip(windows, ends, strict=True)
        if rate > 0
    ]
    inside = [
        t[t < end]
        for t, end in zip(
            drawn, [e for e, w in zip(ends, windows, strict=True) if w[1]], strict=True
        )
    ]
    times = np.concatenate(inside)
    if not len(times):
        raise FormatError("no request was drawn: the rates are too low", path=path)
    return times


def _gaps(rate: float, variation: float, seconds: float, rng: Any) -> Any:
    """Gaps between requests: gamma with this mean and coefficient of variation."""
    count = int(rate * seconds * 1.5 + min(10 * (1 + variation) ** 2, _MOST_MORE)) + 10
    shape = 1 / max(variation, 1e-3) ** 2
    return rng.gamma(shape, 1 / rate / shape, min(count, _MOST))


def _dataset(trace: Path, path: str) -> list[tuple[float, dict[str, Lengths]]]:
    beside = trace.with_name(trace.name.replace("-trace.csv", "-dataset.json"))
    if beside == trace or not beside.is_file():
        raise FormatError(
            f"needs {trace.name.split('-trace')[0]}-dataset.json beside it for lengths", path=path
        )
    content = read_json(beside, dict[str, dict[str, str]], "windows with lengths")
    rows = [
        (float(start), {k: _probabilities(fields[k], str(beside)) for k in _FIELDS if k in fields})
        for start, fields in content.items()
        if re.fullmatch(r"\d{1,9}(\.\d+)?", start)
    ]
    return sorted(rows, key=lambda row: row[0])


def _probabilities(text: str, path: str) -> Lengths:
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise FormatError("lengths are not written as {value: probability, …}", path=path)
    pairs = [_PAIR.fullmatch(part) for part in inner[1:-1].split(",") if part.strip()]
    if not all(pairs):
        raise FormatError("lengths are not written as {value: probability, …}", path=path)
    values = np.array([int(m[1]) for m in pairs if m], np.int64)
    weights = np.array([float(m[2]) for m in pairs if m], np.float64)
    total = weights.sum()
    if not total < np.inf:
        raise FormatError("probabilities of lengths do not add up to a number", path=path)
    possible = weights > 0
    return values[possible], weights[possible] / total


def _drawn(dataset: Any, field: str, times: Any, rng: Any, path: str) -> Any:
    usable = [
        (start, fields[field])
        for start, fields in dataset
        if field in fields and len(fields[field][0])
    ]
    if not usable:
        raise FormatError(f"no window has {field}", path=path)
    starts = np.array([start for start, _ in usable])
    which = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
    out = np.zeros(len(times), np.int64)
    for window in np.unique(which).tolist():
        values, weights = usable[window][1]
        at = which == window
        out[at] = rng.choice(values, int(at.sum()), p=weights)
    return out
