"""JSON lines of requests: Mooncake's, LLMServingSim's (with sessions), and plain ones.

Fields are known by name. Mooncake: timestamp in ms, input_length, output_length, hash_ids of 512 tokens.
LLMServingSim: arrival_time_ns, input_toks, output_toks, block_ids of 16 tokens, or the token ids
themselves; a session has sub_requests, each with the time a tool takes before the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from chakrakit.errors import FormatError
from chakrakit.serving.requests.stream import Stream, stream_of

_TIMES = {
    "timestamp": 1e-3,
    "arrival_time_ns": 1e-9,
    "arrival_ms": 1e-3,
    "arrival_s": 1.0,
    "arrival_time": 1.0,
    "at": 1.0,
}
_PROMPTS = ("input_length", "input_toks", "prompt_tokens", "prompt_len", "prompt")
_OUTPUTS = ("output_length", "output_toks", "output_tokens", "output_len", "output", "out")
_IDS = {"hash_ids": 512, "block_ids": 16}
_TOKENS = ("input_tok_ids", "input_token_ids", "prompt_token_ids")
_NAMES = ("id", "request_id")
_LARGEST, _MOST_PRIORITY = 1e300, 2**31
TOKEN_UNIT = 16
"""Tokens that one name stands for where a file has the tokens themselves."""


@dataclass
class _Rows:
    """Columns as they grow, line by line."""

    path: str
    seconds: list[float] = field(default_factory=list)
    prompt: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)
    ids: list[Sequence[int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    unit: int = 0

    def add(
        self, row: dict[str, Any], line: int, after: int = -1, delay: float | None = None
    ) -> None:
        """One request; in a session it waits for its predecessor and then `delay` seconds."""
        session = row.get("session_id")
        if after < 0 and session is not None and str(session) in self.sessions:
            after = self.sessions[str(session)]
            delay = self._number(row.get("delay", 0), "delay", line) / 1e3
        self.seconds.append(self._time(row, line) if delay is None else delay)
        self.prompt.append(self._length(row, _PROMPTS, line, "prompt"))
        self.output.append(self._length(row, _OUTPUTS, line, "output"))
        self.after.append(after)
        self.priority.append(self._priority(row.get("priority") or 0, line))
        self.ids.append(self._ids(row, line))
        self.names.append(str(next((row[n] for n in _NAMES if n in row), len(self.names))))
        if session is not None:
            self.sessions[str(session)] = len(self.after) - 1

    def wait(self, said: object, line: int) -> float:
        """Seconds that a tool takes."""
        return self._number(said, "tool_duration_ns", line) * 1e-9

    def _time(self, row: dict[str, Any], line: int) -> float:
        for name, scale in _TIMES.items():
            if name in row:
                return self._number(row[name], name, line) * scale
        raise FormatError(
            f"line {line} has no arrival time: one of {', '.join(_TIMES)}", path=self.path
        )

    def _length(self, row: dict[str, Any], names: Sequence[str], line: int, what: str) -> float:
        for name in names:
            if name in row:
                return self._number(row[name], name, line)
        if what == "prompt" and (tokens := next((row[n] for n in _TOKENS if n in row), None)):
            return float(len(self._tokens(tokens, line)))
        raise FormatError(
            f"line {line} has no {what} length: one of {', '.join(names)}", path=self.path
        )

    def _number(self, value: object, name: str, line: int) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FormatError(f"line {line}: {name} is {value!r}, not a number", path=self.path)
        return float(value) if abs(value) < _LARGEST else math.inf

    def _priority(self, value: object, line: int) -> int:
        if not isinstance(value, int) or abs(value) > _MOST_PRIORITY:
            raise FormatError(
                f"line {line}: priority is {value!r:.40}, not a number", path=self.path
            )
        return value

    def _tokens(self, tokens: object, line: int) -> list[int]:
        """Token ids, each of 32 bits and so never too large."""
        if not isinstance(tokens, list) or not all(
            isinstance(t, int) and abs(t) < 2**32 for t in tokens
        ):
            raise FormatError(f"line {line}: token ids must be whole numbers", path=self.path)
        return tokens

    def _ids(self, row: dict[str, Any], line: int) -> Sequence[int]:
        for name, unit in _IDS.items():
            if row.get(name) is not None:
                return self._checked(row[name], name, unit, line)
        tokens = next((row[n] for n in _TOKENS if n in row), None)
        return (
            []
            if tokens is None
            else self._checked(
                list(_chained(self._tokens(tokens, line))), "tokens", TOKEN_UNIT, line
            )
        )

    def _checked(self, ids: object, name: str, unit: int, line: int) -> Sequence[int]:
        if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
            raise FormatError(
                f"line {line}: {name} must be a list of whole numbers", path=self.path
            )
        if self.unit not in (0, unit):
            raise FormatError(
                f"line {line}: names of {unit} and of {self.unit} tokens are mixed", path=self.path
            )
        self.unit = unit
        return ids


def _chained(tokens: Sequence[int]) -> Iterator[int]:
    """A name for each full unit of tokens, which depends on everything before it."""
    state = blake2b(digest_size=8)
    for start in range(0, len(tokens) - TOKEN_UNIT + 1, TOKEN_UNIT):
        state.update(np.array(tokens[start : start + TOKEN_UNIT], np.int64).tobytes())
        yield int.from_bytes(state.copy().digest(), "little")


def read_json_lines(data: bytes, path: str) -> Stream:
    """A request, or a session of several, on each line."""
    rows = _Rows(path)
    lines = []
    for number, text in enumerate(data.split(b"\n"), 1):
        if text.strip():
            lines.append(number)
            _line(rows, _decoded(text, number, path), number)
    if not lines:
        raise FormatError("has no requests", path=path)
    times = np.array(rows.seconds)
    own = np.array(rows.after) < 0
    if times[own].min(initial=np.inf) > 1e8:  # dates
        times = np.where(own, times - times[own].min(), times)
    return stream_of(
        times,
        rows.prompt,
        rows.output,
        ids=rows.ids,
        where=path,
        after=rows.after,
        unit=rows.unit or 16,
        priority=rows.priority,
        names=rows.names,
    )


def _decoded(text: bytes, number: int, path: str) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"line {number} is not JSON: {error}", path=path) from None
    if not isinstance(row, dict):
        raise FormatError(
            f"line {number} should be an object with the fields of a request", path=path
        )
    return row


def _line(rows: _Rows, row: dict[str, Any], number: int) -> None:
    parts = row.get("sub_requests")
    if parts is None:
        rows.add(row, number)
        return
    if not isinstance(parts, list) or not all(isinstance(p, dict) for p in parts) or not parts:
        raise FormatError(f"line {number}: sub_requests must be a list of requests", path=rows.path)
    shared = {n: v for n, v in row.items() if n != "sub_requests"}
    rows.add({**shared, **parts[0]}, number)
    for before, part in pairwise(parts):
        wait = rows.wait(before.get("tool_duration_ns") or 0, number)
        rows.add({**shared, **part}, number, after=len(rows.after) - 1, delay=wait)
