"""Where a program is: times and lines of files, for errors."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

_OURS = str(Path(__file__).parent)


def moment(ps: float) -> str:
    """A time as people read it."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("us", 10**6)):
        if ps >= size:
            return f"{ps / size:,.9g} {unit}"
    return f"{ps / 1000:,g} ns"


def line_of(program: Any) -> str:
    """File and line of the `yield` at which a generator waits; "" where there is none."""
    while getattr(getattr(program, "gi_yieldfrom", None), "gi_frame", None) is not None:
        program = program.gi_yieldfrom
    frame = getattr(program, "gi_frame", None)
    return "" if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def line_of_error(trace: TracebackType | None) -> str:
    """File and line at which a program called something of this room, which may call others in turn."""
    line = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OURS) and line:
            break
        if not file.startswith(_OURS):
            line = _line(file, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _line(file: str, number: int) -> str:
    return f"{Path(file).name}, line {number}"
