"""Reads files of requests, recognized by their content: CSV, JSON lines, a benchmark's JSON, Parquet.

JSON lines may be Mooncake's, LLMServingSim's (with sessions) or plain; fields are recognized by name.
Mooncake has `timestamp` in ms, `input_length`, `output_length` and `hash_ids` of 512 tokens. LLMServingSim
has `arrival_time_ns`, `input_toks`, `output_toks` and `block_ids` of 16 tokens, or the token ids themselves;
a session has `sub_requests`, each with the time a tool takes before the next.
"""

from __future__ import annotations

import io
import math
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import csv

from chakrakit.arrays import I64
from chakrakit.configuration import decode_json
from chakrakit.errors import ConfigError, FormatError, listed, nearest
from chakrakit.passes.base import split
from chakrakit.serving.requests.agents import Agents, agent_stream
from chakrakit.serving.requests.foreign import REQUEST_FORMATS
from chakrakit.serving.requests.processes import PROCESSES as ARRIVAL_PROCESSES
from chakrakit.serving.requests.processes import Process, generated
from chakrakit.serving.requests.stream import RequestStream, stream_of
from chakrakit.trace.files import check_columns, first_unpacked, read_parquet, unpacked

# --- JSON lines ---------------------------------------------------------------------------------

PROCESSES: dict[str, type[Process]] = {**ARRIVAL_PROCESSES, "agents": Agents}


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
"""A larger number would overflow a float when scaled, or 32 bits, and is refused with its line."""
TOKEN_UNIT = 16
"""Tokens that one id of content stands for where a file has the tokens themselves: a block of vLLM's."""


@dataclass
class _Rows:
    """The columns of a stream, filled line by line."""

    path: str
    seconds: list[float] = field(default_factory=list)
    prompt: list[float] = field(default_factory=list)
    output: list[float] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)
    ids: list[Sequence[int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    models: dict[str, int] = field(default_factory=dict)
    model: list[int] = field(default_factory=list)
    tenants: dict[str, int] = field(default_factory=dict)
    tenant: list[int] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    unit: int = 0

    def add(
        self, row: dict[str, Any], line: int, after: int = -1, delay: float | None = None
    ) -> None:
        """Adds a request; in a session it waits for its predecessor and then `delay` seconds."""
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
        self.model.append(_place(row.get("model"), self.models))
        self.tenant.append(_place(row.get("tenant"), self.tenants))
        if session is not None:
            self.sessions[str(session)] = len(self.after) - 1

    def wait(self, nanoseconds: object, line: int) -> float:
        """The seconds that a tool takes, from its nanoseconds."""
        return self._number(nanoseconds, "tool_duration_ns", line) * 1e-9

    def _time(self, row: dict[str, Any], line: int) -> float:
        for name, scale in _TIMES.items():
            if name in row:
                return self._number(row[name], name, line) * scale
        raise FormatError(
            f"line {line} has no arrival time: one of {', '.join(_TIMES)}", path=self.path
        )

    def _length(self, row: dict[str, Any], names: Sequence[str], line: int, part: str) -> float:
        for name in names:
            if name in row:
                return self._number(row[name], name, line)
        if part == "prompt" and (tokens := next((row[n] for n in _TOKENS if n in row), None)):
            return float(len(self._tokens(tokens, line)))
        raise FormatError(
            f"line {line} has no {part} length: one of {', '.join(names)}", path=self.path
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
        """The token ids of a prompt, checked to fit in 32 bits."""
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
    """An id for each full unit of tokens, which depends on all tokens before it too."""
    state = blake2b(digest_size=8)
    for start in range(0, len(tokens) - TOKEN_UNIT + 1, TOKEN_UNIT):
        state.update(np.array(tokens[start : start + TOKEN_UNIT], np.int64).tobytes())
        yield int.from_bytes(state.copy().digest(), "little")


def read_json_lines(data: bytes, path: str) -> RequestStream:
    """The stream of JSON lines, each of which is a request or a session of several."""
    rows = _Rows(path)
    lines = []
    for number, text in enumerate(data.split(b"\n"), 1):
        if text.strip():
            lines.append(number)
            _line(rows, _decoded(text, number, path), number)
    if not lines:
        raise FormatError("has no requests", path=path)
    times = np.array(rows.seconds)
    has_arrival = np.array(rows.after) < 0
    if times[has_arrival].min(initial=np.inf) > 1e8:  # dates
        times = np.where(has_arrival, times - times[has_arrival].min(), times)
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
        models=tuple(rows.models),
        model=rows.model if rows.models else None,
        tenants=tuple(rows.tenants),
        tenant=rows.tenant if rows.tenants else None,
    )


def _place(name: object, known: dict[str, int]) -> int:
    """The place of a name among those that are known, which it joins; -1 for none."""
    return -1 if name is None else known.setdefault(str(name), len(known))


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


# --- files of any format ------------------------------------------------------------------------


_HEAD = 1 << 16
"""Bytes that tell which tool wrote a file."""
_MOST_FILES = 1000
"""Files of a folder that are looked at; a benchmark leaves a handful."""
DATES_FROM = 1e8
"""Seconds above this are dates (after 1973), not times since the start."""
DATES_TO = 1e11
"""Seconds above this are no dates (after the year 5138): our dates in milliseconds are 1.7e12."""
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is not JSON, or is nested too deeply."""


def read_requests(path: str | Path, seed: int = 0) -> RequestStream:
    """The stream of a file, whose format is recognized by its content; of a folder, the one in it."""
    file = Path(path)
    if file.is_dir():
        file = _only_file(file)
        path = file
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    data = unpacked(data, str(path)).removeprefix(BOM_UTF8)
    if format := next((f for f in REQUEST_FORMATS if f.recognises(data[:_HEAD])), None):
        return format.read(data, str(path), seed)
    if data[:4] == b"PAR1":
        return _parquet(data, str(path))
    start = data[:4096].lstrip()
    if not start:
        raise FormatError(
            "is empty; docs/serving.md says what a file of requests holds", path=str(path)
        )
    if start[:1] in b"{[":
        return _json(data, str(path), seed)
    return _csv(data, str(path))


def _only_file(folder: Path) -> Path:
    """The one file of requests that another tool wrote into a folder."""
    files = sorted(f for f in islice(folder.iterdir(), _MOST_FILES) if f.is_file())
    known = [f for f in files if any(r.recognises(_head(f)) for r in REQUEST_FORMATS)]
    records = [
        f for f in known if ".json" not in f.suffixes
    ] or known  # summaries lie beside records
    if len(records) != 1:
        found = listed([f.name for f in records]) if records else "none that is known"
        raise ConfigError(f"{folder} is a folder; give one file of requests (in it: {found})")
    return records[0]


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return first_unpacked(stream.read(_HEAD), _HEAD).removeprefix(BOM_UTF8)
    except (OSError, zlib.error):
        return b""


def _json(data: bytes, path: str, seed: int) -> RequestStream:
    """The stream of a JSON document, or of JSON lines."""
    first, _, rest = data.strip().partition(b"\n")
    try:
        document = msgspec.json.decode(first)
    except DAMAGE:
        return _document(data, path, seed)
    if not rest.strip() and isinstance(document, dict) and "input_lens" in document:
        return _benchmark(document, path, seed)
    if not rest.strip() and (isinstance(document, list) or "requests" in document):
        return _document(data, path, seed)
    return read_json_lines(data, path)


def _document(data: bytes, path: str, seed: int) -> RequestStream:
    document = decode_json(data, object, path, "a file of requests, in JSON or JSON lines")
    if isinstance(document, dict) and "input_lens" in document:
        return _benchmark(document, path, seed)
    rows = document.get("requests") if isinstance(document, dict) else document
    if isinstance(rows, list):
        return read_json_lines(b"\n".join(msgspec.json.encode(row) for row in rows), path)
    raise FormatError("has no `input_lens`, as the JSON of `vllm bench serve` does", path=path)


def _benchmark(document: dict[str, Any], path: str, seed: int) -> RequestStream:
    """The stream of what `vllm bench serve --save-detailed` writes: lengths, and start times or a rate."""
    prompt, output = document["input_lens"], document.get("output_lens")
    if not isinstance(prompt, list) or not isinstance(output, list) or len(prompt) != len(output):
        raise FormatError("`input_lens` and `output_lens` must be lists of one length", path=path)
    sizes = _floats(prompt, "input_lens", path), _floats(output, "output_lens", path)
    starts = document.get("start_times")
    if isinstance(starts, list) and starts and len(starts) == len(prompt):
        times = _floats(starts, "start_times", path)
        order = np.argsort(times, kind="stable")
        since_first = times[order] - times[order[0]]
        return stream_of(since_first, sizes[0][order], sizes[1][order], where=path)
    times = _paced(document.get("request_rate", "inf"), len(prompt), seed, path)
    at_once = _at_once(document.get("max_concurrency"), path)
    return stream_of(times, *sizes, where=path, concurrency=at_once)


def _floats(values: list[Any], name: str, path: str) -> Any:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        raise FormatError(f"`{name}` must be a list of numbers", path=path)
    return np.array([float(v) if abs(v) < _LARGEST else np.nan for v in values], np.float64)


def _at_once(limit: object, path: str) -> int:
    """The most requests at the same time; 0 for no limit."""
    if limit is None:
        return 0
    if not isinstance(limit, int) or not 0 <= limit < 2**31 - 1:
        raise FormatError(f"`max_concurrency` is {limit!r:.40}; it should be 1 or more", path=path)
    return limit


def _paced(rate: object, count: int, seed: int, path: str) -> Any:
    """Arrival times at a rate, Poisson as in the benchmark itself; all 0 for an infinite rate."""
    try:
        value = float(rate)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise FormatError(f"`request_rate` is {rate!r:.40}, not a number", path=path) from None
    if not value > 0:
        raise FormatError(f"`request_rate` is {value}; it must be above 0", path=path)
    if value == float("inf"):
        return np.zeros(count)
    return np.cumsum(np.random.default_rng((seed, 7)).exponential(1 / value, count))


# --- tables -------------------------------------------------------------------------------------

_LONGEST_NS = 10 * 365.25 * 86_400e9
"""Ten years: dates further apart are a mistake in the file."""
_TABLE_TIMES = ("arrival_s", "timestamp", "arrival_time", "arrival")
_TABLE_PROMPTS = (
    "prompt",
    "contexttokens",
    "request tokens",
    "input_toks",
    "input_length",
    "num_prefill_tokens",
    "prompt_tokens",
    "input_tokens",
)
_TABLE_OUTPUTS = (
    "output",
    "generatedtokens",
    "response tokens",
    "output_toks",
    "output_length",
    "num_decode_tokens",
    "completion_tokens",
    "output_tokens",
)


def _csv(data: bytes, path: str) -> RequestStream:
    return _table(csv_table(data, path), path, first_line=2)


def csv_table(data: bytes, path: str) -> pa.Table:
    """The table of a CSV in UTF-8, whose first line has the names of columns."""
    try:
        data.decode("utf-8")  # pyarrow does not check the names of columns
        table = csv.read_csv(io.BytesIO(data))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise FormatError(f"not a CSV file: {error}", path=path) from None
    check_columns(table.column_names, path)
    return table


def _parquet(data: bytes, path: str) -> RequestStream:
    return _table(read_parquet(io.BytesIO(data), path), path, first_line=1)


def _column(table: pa.Table, names: tuple[str, ...], path: str, meaning: str) -> pa.ChunkedArray:
    spelling = {c.strip().lower(): c for c in table.column_names}
    for name in names:
        if name in spelling:
            return table.column(spelling[name])
    raise FormatError(
        f"has no column for {meaning}: one of {', '.join(names)}; it has {', '.join(table.column_names)}",
        path=path,
    )


def _table(table: pa.Table, path: str, first_line: int) -> RequestStream:
    times = _seconds(_column(table, _TABLE_TIMES, path, "arrival times"), path)
    prompt, output = (
        _numbers(_column(table, names, path, meaning), path, meaning)
        for names, meaning in (
            (_TABLE_PROMPTS, "prompt lengths"),
            (_TABLE_OUTPUTS, "output lengths"),
        )
    )
    notes: tuple[str, ...] = ()
    failed = output == 0
    if "log type" in {c.strip().lower() for c in table.column_names} and failed.any():
        notes = (f"{int(failed.sum()):,} requests that gave no tokens (failures) were left out",)
        times, prompt, output = (a[~failed] for a in (times, prompt, output))
        table = table.filter(pa.array(~failed))
    else:
        notes = _assumed_seconds(table)
    more: dict[str, Any] = {"notes": notes}
    if "priority" in table.column_names:
        more["priority"] = _numbers(table.column("priority"), path, "priority")
    if "hash_ids" in table.column_names:
        more["ids"] = _identifiers(table.column("hash_ids").to_pylist(), path)
        more["unit"] = 512
    if "tenant" in table.column_names:
        known: dict[str, int] = {}
        more["tenant"] = [_place(v, known) for v in table.column("tenant").to_pylist()]
        more["tenants"] = tuple(known)
    if "id" in table.column_names:
        more["names"] = [str(v) for v in table.column("id").to_pylist()]
    return stream_of(times, prompt, output, where=path, first_line=first_line, **more)


def _assumed_seconds(table: pa.Table) -> tuple[str, ...]:
    """Says that numbers in a column without a unit were taken for seconds."""
    spelling = {c.strip().lower(): c for c in table.column_names}
    name = spelling[next(n for n in _TABLE_TIMES if n in spelling)]
    kind = table.schema.field(name).type
    if name.lower().endswith("_s") or not (pt.is_integer(kind) or pt.is_floating(kind)):
        return ()
    return (f"the column {name} is taken for seconds; JSON lines have `timestamp` in milliseconds",)


def _identifiers(lists: list[Any], path: str) -> list[list[int]]:
    ids = [[] if prompt_ids is None else prompt_ids for prompt_ids in lists]
    if not all(
        isinstance(prompt_ids, list) and all(isinstance(i, int) for i in prompt_ids)
        for prompt_ids in ids
    ):
        raise FormatError("hash_ids must be lists of whole numbers", path=path)
    return ids


def _seconds(column: pa.ChunkedArray, path: str) -> Any:
    if not len(column):
        return np.zeros(0)
    if pt.is_timestamp(column.type) or pt.is_date(column.type):
        try:
            nanos = column.cast(pa.timestamp("ns")).cast(pa.int64())
        except pa.ArrowException as error:
            raise FormatError(f"arrival times: {error}", path=path) from None
        if nanos.null_count:
            raise FormatError("arrival times: some are missing", path=path)
        return _since_first(np.asarray(nanos.to_numpy()), path)
    if pt.is_string(column.type) or pt.is_large_string(column.type):
        return _dates(column, path)
    times = _numbers(column, path, "arrival times")
    if len(times) and times[0] > DATES_TO:
        raise FormatError(
            f"arrival times: {times[0]:g} s is not a date; give seconds (milliseconds: divide by 1,000)",
            path=path,
        )
    return times - times[0] if len(times) and times[0] > DATES_FROM else times


_ZONE = re.compile(r"(?<=:\d\d)([.]\d+)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)$")
"""The time zone behind a time of day: `Z`, `+02:00`, `+0200` or `+02`."""


def _dates(column: pa.ChunkedArray, path: str) -> Any:
    """Dates with up to nine decimals of a second, as seconds since the first."""
    texts = [str(t).strip().replace(" ", "T") for t in column.to_pylist()]
    zones = [match["zone"] if (match := _ZONE.search(text)) else "" for text in texts]
    if "" in zones and any(zones):
        raise FormatError("arrival times: some state a time zone and others do not", path=path)
    try:
        local = np.array(
            [t.removesuffix(zone) for t, zone in zip(texts, zones, strict=True)], "datetime64[ns]"
        )
    except ValueError as error:
        raise FormatError(f"arrival times: {error}", path=path) from None
    if np.isnat(local).any():
        raise FormatError("arrival times: some are not dates", path=path)
    ahead = {zone: _ahead_of_utc_ns(zone) for zone in set(zones)}
    return _since_first(local.astype(np.int64) - np.array([ahead[z] for z in zones]), path)


def _ahead_of_utc_ns(zone: str) -> int:
    """Nanoseconds by which the clocks of a time zone are ahead of UTC."""
    if zone in ("", "Z"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    return (-1 if zone[0] == "-" else 1) * minutes * 60 * 10**9


def _since_first(nanoseconds: I64, path: str) -> Any:
    """Seconds since the first date, whose nanoseconds have more digits than a double holds."""
    if np.ptp(nanoseconds.astype(np.float64)) > _LONGEST_NS:
        raise FormatError("arrival times: the dates are more than ten years apart", path=path)
    return (nanoseconds - nanoseconds[0]) / 1e9


def _numbers(column: pa.ChunkedArray, path: str, meaning: str) -> Any:
    try:
        return np.asarray(column.cast(pa.float64()).fill_null(float("nan")).to_numpy())
    except pa.ArrowException as error:
        raise FormatError(f"{meaning}: {error}", path=path) from None


def requests_from(text: str | RequestStream, seed: int | None = None) -> RequestStream:
    """The stream of a file or of a process, `name{field=value}` or `name:field=value`; `seed` wins."""
    if isinstance(text, RequestStream):
        return text
    name = re.split("[{:]", text, maxsplit=1)[0].strip()
    if name not in PROCESSES or Path(text).is_file():
        if not Path(text).exists():
            raise ConfigError(
                f"--requests {text}: neither a file nor a process; {nearest(name, PROCESSES)}"
            )
        return read_requests(text, seed or 0)
    _, fields = split(text, "--requests")
    if seed is not None:
        fields["seed"] = str(seed)
    try:
        process = msgspec.convert(fields, PROCESSES[name], strict=False)
    except msgspec.ValidationError as error:
        fields_of = PROCESSES[name].__struct_fields__
        wrong = [f for f in fields if f not in fields_of]
        hint = f"; {nearest(wrong[0], fields_of, 16)}" if wrong else ""
        raise ConfigError(f"--requests {text!r}: {error}{hint}") from None
    return agent_stream(process) if isinstance(process, Agents) else generated(process)
