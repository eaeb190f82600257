"""Failures from a log: a CSV file with one row per failure."""

from __future__ import annotations

import csv
from pathlib import Path

from chakrakit.campaigns.engine import SCOPES, LoggedFailure
from chakrakit.errors import FormatError

COLUMNS = ("hour", "node", "cause", "scope", "factor", "hours")


def read_failure_log(path: str | Path, nodes: int) -> tuple[LoggedFailure, ...]:
    """A log's failures in the order of time.

    The header names the columns: `hour` (since the job began) and `node` (from 0) are needed; `cause`,
    `scope` (process, node, rack or cluster), `factor` and `hours` may be there.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            header = tuple(rows.fieldnames or ())
            _check_header(path, header)
            found = [_failure(path, rows.line_num, row, nodes) for row in rows]
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(path)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"not a CSV file: {error}", path=str(path)) from None
    return tuple(sorted(found, key=lambda failure: failure.time))


def _check_header(path: str | Path, header: tuple[str, ...]) -> None:
    missing = [name for name in ("hour", "node") if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if missing or unknown:
        wrong = f"no column {missing[0]!r}" if missing else f"unknown column {unknown[0]!r}"
        raise FormatError(f"{wrong}; the columns are {', '.join(COLUMNS)}", path=f"{path}:1")


def _failure(path: str | Path, line: int, row: dict[str, str], nodes: int) -> LoggedFailure:
    place = f"{path}:{line}"
    hour, node = _number(place, "hour", row["hour"]), _number(place, "node", row["node"])
    if not 0 <= node < nodes or node != int(node):
        raise FormatError(
            f"node {row['node']} is not one of the {nodes} nodes (from 0)", path=place
        )
    scope = row.get("scope") or "node"
    if scope not in SCOPES:
        raise FormatError(f"scope {scope!r} should be one of {', '.join(SCOPES)}", path=place)
    factor, hours = row.get("factor"), row.get("hours")
    slower = _number(place, "factor", factor) if factor else None
    if slower is not None and (slower < 1 or not hours):
        raise FormatError("a slow node needs a factor of at least 1 and its hours", path=place)
    return LoggedFailure(
        time=hour * 3600,
        node=int(node),
        cause=row.get("cause") or "log",
        scope=scope,
        factor=slower,
        seconds=_number(place, "hours", hours) * 3600 if hours else 0.0,
    )


def _number(place: str, name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise FormatError(f"{name} should be a number, not {text!r}", path=place) from None
    if not 0 <= value < float("inf"):
        raise FormatError(f"{name} is {text}; it must be 0 or more", path=place)
    return value
