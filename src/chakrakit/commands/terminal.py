"""Where people read: lines broken at words, tables that fit the width, a bar that moves.

In a pipe lines stay whole, and tables may be wider: what reads them has no width of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import click

PIPE_WIDTH = 160
"""How wide tables get in a pipe before their texts are broken."""
_USUAL = 80
"""Columns where nobody says how wide it is."""
_NARROW = 8
"""Fewest characters that a column of text keeps."""
_GAP, _SMALL_GAP = 2, 1
"""Spaces between columns, and where a table would be too wide."""
_CONTROL = {c: f"\\x{c:02x}" for c in (*range(0x20), *range(0x7F, 0xA0)) if chr(c) not in "\t\n"}
"""Of each character that a terminal would obey, how it is shown."""
_COMMAND = "chakra "
"""How a command begins that readers will copy; behind a colon, or another, a line is broken before it."""


def clean(text: str) -> str:
    """Text from a file as it may go to a terminal: control characters are shown, not sent."""
    return text.translate(_CONTROL)


def columns() -> int:
    """How wide the terminal is, or is to be taken for.

    `shutil` answers the same, and loads three libraries of compression with it: 4 ms of every command.
    """
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _USUAL  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # closed, or not a terminal
        return _USUAL


class Console:
    """Standard output, as wide as the terminal is."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.width = columns() if self.is_terminal else PIPE_WIDTH

    def print(self, text: object = "", style: str = "") -> None:
        """Lines, broken at words where a terminal is narrower; colours on a terminal only."""
        for line in clean(str(text)).split("\n"):
            for part in broken(line, self.width) if self.is_terminal else [line]:
                click.secho(part, fg=style or None)

    def rule(self, title: str) -> None:
        """A title with a line behind it."""
        click.echo(f"{title} {'─' * max(min(self.width, 80) - len(title) - 1, 0)}")


def broken(line: str, width: int) -> list[str]:
    """A line in parts that fit; commands at its end stay whole, one in each line, to be copied."""
    if len(line) <= width:
        return [line]
    head, mark, rest = line.partition(f": {_COMMAND}")
    indent = " " * (len(line) - len(line.lstrip()))
    commands = rest.split(f", {_COMMAND}") if mark else []
    first = _wrapped(f"{head}:" if mark else head.rstrip(), width, indent)
    return first + [f"{indent}{_COMMAND}{command}" for command in commands]


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    if len(text) <= width and "\n" not in text:
        return [text]
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def table_lines(head: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """A table as lines: numbers to the right and never broken; texts and heads are where it is too wide."""
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(head))]
    columns = [[name, *(row[i] for row in cells)] for i, name in enumerate(head)]
    # Columns move together before a word is broken.
    for gap, may_break in ((_GAP, False), (_SMALL_GAP, False), (_GAP, True), (_SMALL_GAP, True)):
        room = width - gap * (len(head) - 1)
        widths = _widths(columns, right, room, may_break)
        if sum(widths) <= room:
            break
    lines = []
    for row in (head, *cells):
        parts = [_wrapped(text, w) for text, w in zip(row, widths, strict=True)]
        height = max(map(len, parts), default=1)
        is_head = row is head
        # The last words of a head stand directly above their column.
        padded = [[""] * (height - len(p)) + p if is_head else p + [""] * height for p in parts]
        for at in range(height):
            line = (
                text[at].rjust(w) if to_right else text[at].ljust(w)
                for text, w, to_right in zip(padded, widths, right, strict=True)
            )
            lines.append((" " * gap).join(line).rstrip())
    return lines


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").isdigit()


def _widths(
    columns: Sequence[Sequence[str]], right: Sequence[bool], room: int, may_break: bool
) -> list[int]:
    """The width of each column: what it needs or, where that is too much, the widest ones less."""
    widths = [max(map(len, column)) for column in columns]
    least = [
        max(_longest_word(column[0]), *(map(len, column[1:]) if numbers else [_NARROW]))
        for column, numbers in zip(columns, right, strict=True)
    ]
    whole = [max(map(_longest_word, column)) for column in columns]
    floors = [[max(pair) for pair in zip(least, whole, strict=True)]]
    for floor in (*floors, least) if may_break else floors:
        while sum(widths) > room:
            spare = [w - f for w, f in zip(widths, floor, strict=True)]
            if max(spare) <= 0:
                break
            widest = max(range(len(widths)), key=lambda i: (spare[i] > 0, widths[i]))
            widths[widest] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=1)


@contextlib.contextmanager
def moving_bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """A function to call with (done, total or None); a line on a terminal that moves, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    bar = _Bar(label)
    bar.start()
    try:
        yield bar.show
    finally:
        bar.end()


_EVERY_S = 0.1
_CELLS = 40


class _Bar(threading.Thread):
    """Draws how far something is, and since when, until it ends: also while nothing is said of it."""

    def __init__(self, label: str) -> None:
        super().__init__(daemon=True)
        self._label, self._began = label, time.monotonic()
        self._done, self._total = 0, 0
        self._ended = threading.Event()

    def show(self, done: int, total: int | None) -> None:
        """So much is done; a total that is not known is None."""
        self._done, self._total = done, total or 0

    def end(self) -> None:
        """Removes the line."""
        self._ended.set()
        self.join()
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()

    def run(self) -> None:
        """Draws until the end."""
        while not self._ended.wait(_EVERY_S):
            sys.stderr.write(f"\r\x1b[2K{self._line()}")
            sys.stderr.flush()

    def _line(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        share = min(self._done / self._total, 1.0) if self._total else 0.0
        filled = int(_CELLS * share)
        known = f" {100 * share:3.0f} %" if self._total else ""
        return (
            f"{self._label} {'━' * filled}{'─' * (_CELLS - filled)}{known} {minutes}:{seconds:02}"
        )
