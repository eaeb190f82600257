"""Files of requests, told apart by what they hold: CSV, JSON lines, a benchmark's JSON, Parquet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import csv

from chakrakit.configuration import decode_json
from chakrakit.errors import ConfigError, FormatError
from chakrakit.serving.requests.json_lines import read_json_lines
from chakrakit.serving.requests.stream import Stream, stream_of
from chakrakit.trace.files import check_columns, read_parquet, unpacked

DATES_FROM = 1e8
"""Seconds above this are dates (after 1973), not times since the start."""
DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises of text that is no JSON, or is nested without end."""


def read_requests(path: str | Path, seed: int = 0) -> Stream:
    """The requests of a file."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    data = unpacked(data, str(path))
    if data[:4] == b"PAR1":
        return _parquet(data, str(path))
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise FormatError(
            "is empty; docs/serving.md says what a file of requests holds", path=str(path)
        )
    if start[:1] in b"{[":
        return _json(data, str(path), seed)
    return _csv(data, str(path))


def _json(data: bytes, path: str, seed: int) -> Stream:
    """One document, or one on each line."""
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


def _document(data: bytes, path: str, seed: int) -> Stream:
    found = decode_json(data, object, path, "a file of requests, in JSON or JSON lines")
    if isinstance(found, dict) and "input_lens" in found:
        return _benchmark(found, path, seed)
    rows = found.get("requests") if isinstance(found, dict) else found
    if isinstance(rows, list):
        return read_json_lines(b"\n".join(msgspec.json.encode(row) for row in rows), path)
    raise FormatError("has no `input_lens`, as the JSON of `vllm bench serve` does", path=path)


def _benchmark(found: dict[str, Any], path: str, seed: int) -> Stream:
    """What `vllm bench serve --save-detailed` writes: lengths, and start times or a rate."""
    prompt, output = found["input_lens"], found.get("output_lens")
    if not isinstance(prompt, list) or not isinstance(output, list) or len(prompt) != len(output):
        raise FormatError("`input_lens` and `output_lens` must be lists of one length", path=path)
    sizes = _floats(prompt, "input_lens", path), _floats(output, "output_lens", path)
    starts = found.get("start_times")
    if isinstance(starts, list) and starts and len(starts) == len(prompt):
        times = _floats(starts, "start_times", path)
        order = np.argsort(times, kind="stable")
        own = times[order] - times[order[0]]
        return stream_of(own, sizes[0][order], sizes[1][order], where=path)
    times = _paced(found.get("request_rate", "inf"), len(prompt), seed, path)
    at_once = _at_once(found.get("max_concurrency"), path)
    return stream_of(times, *sizes, where=path, concurrency=at_once)


def _floats(values: list[Any], name: str, path: str) -> Any:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        raise FormatError(f"`{name}` must be a list of numbers", path=path)
    return np.array([float(v) if abs(v) < _LARGEST else np.nan for v in values], np.float64)


def _at_once(said: object, path: str) -> int:
    """How many requests are under way at most; 0 for any number."""
    if said is None:
        return 0
    if not isinstance(said, int) or not 0 <= said < 2**31 - 1:
        raise FormatError(f"`max_concurrency` is {said!r:.40}; it should be 1 or more", path=path)
    return said


def _paced(rate: object, count: int, seed: int, path: str) -> Any:
    """Arrivals at a rate: Poisson, as the benchmark itself draws them; all at once where it is inf."""
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

_LARGEST = 1e300
_LONGEST_NS = 10 * 365.25 * 86_400e9
_TIMES = ("arrival_s", "timestamp", "arrival_time", "arrival")
_PROMPTS = (
    "prompt",
    "contexttokens",
    "request tokens",
    "input_toks",
    "input_length",
    "num_prefill_tokens",
)
_OUTPUTS = (
    "output",
    "generatedtokens",
    "response tokens",
    "output_toks",
    "output_length",
    "num_decode_tokens",
)


def _csv(data: bytes, path: str) -> Stream:
    return _table(csv_table(data, path), path, first_line=2)


def csv_table(data: bytes, path: str) -> pa.Table:
    """A CSV with one line of names, in UTF-8."""
    try:
        data.decode("utf-8")  # pyarrow does not check the names of columns
        table = csv.read_csv(io.BytesIO(data))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise FormatError(f"not a CSV file: {error}", path=path) from None
    check_columns(table.column_names, path)
    return table


def _parquet(data: bytes, path: str) -> Stream:
    return _table(read_parquet(io.BytesIO(data), path), path, first_line=1)


def _column(table: pa.Table, names: tuple[str, ...], path: str, what: str) -> pa.ChunkedArray:
    found = {c.strip().lower(): c for c in table.column_names}
    for name in names:
        if name in found:
            return table.column(found[name])
    raise FormatError(
        f"has no column for {what}: one of {', '.join(names)}; it has {', '.join(table.column_names)}",
        path=path,
    )


def _table(table: pa.Table, path: str, first_line: int) -> Stream:
    times = _seconds(_column(table, _TIMES, path, "arrival times"), path)
    prompt, output = (
        _numbers(_column(table, names, path, what), path, what)
        for names, what in ((_PROMPTS, "prompt lengths"), (_OUTPUTS, "output lengths"))
    )
    notes: tuple[str, ...] = ()
    failed = output == 0
    if "log type" in {c.strip().lower() for c in table.column_names} and failed.any():
        notes = (f"{int(failed.sum()):,} requests that gave no tokens (failures) were left out",)
        times, prompt, output = (a[~failed] for a in (times, prompt, output))
    more: dict[str, Any] = {"notes": notes}
    if "priority" in table.column_names:
        more["priority"] = _numbers(table.column("priority"), path, "priority")
    if "hash_ids" in table.column_names:
        more["ids"] = _identifiers(table.column("hash_ids").to_pylist(), path)
        more["unit"] = 512
    if "id" in table.column_names:
        more["names"] = [str(v) for v in table.column("id").to_pylist()]
    return stream_of(times, prompt, output, where=path, first_line=first_line, **more)


def _identifiers(said: list[Any], path: str) -> list[list[int]]:
    ids = [[] if own is None else own for own in said]
    if not all(isinstance(own, list) and all(isinstance(i, int) for i in own) for own in ids):
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
        times = np.asarray(nanos.to_numpy()).astype(np.float64)
        return (times - times[0]) / 1e9
    if pt.is_string(column.type) or pt.is_large_string(column.type):
        return _dates(column, path)
    times = _numbers(column, path, "arrival times")
    return times - times[0] if len(times) and times[0] > DATES_FROM else times


def _dates(column: pa.ChunkedArray, path: str) -> Any:
    """Dates with up to nine decimals of a second, as seconds since the first."""
    texts = column.to_pylist()
    try:
        stamps = np.array([str(t).strip().replace(" ", "T") for t in texts], "datetime64[ns]")
    except ValueError as error:
        raise FormatError(f"arrival times: {error}", path=path) from None
    if np.isnat(stamps).any():
        raise FormatError("arrival times: some are no dates", path=path)
    nanos = stamps.astype(np.int64).astype(np.float64)
    if np.ptp(nanos) > _LONGEST_NS:
        raise FormatError("arrival times: the dates are more than ten years apart", path=path)
    return (stamps - stamps[0]).astype(np.int64) / 1e9


def _numbers(column: pa.ChunkedArray, path: str, what: str) -> Any:
    try:
        return np.asarray(column.cast(pa.float64()).fill_null(float("nan")).to_numpy())
    except pa.ArrowException as error:
        raise FormatError(f"{what}: {error}", path=path) from None
