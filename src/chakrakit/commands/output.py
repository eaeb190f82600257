"""What the commands print: JSON for machines, tables for people, progress on a terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from chakrakit.commands.options import OUTPUT, Option

if TYPE_CHECKING:
    from rich.console import Console

    from chakrakit.insight import Answer
    from chakrakit.insight.rank import Table
    from chakrakit.trace.sets import RecordedStep
    from chakrakit.workloads.generate import ModelFigures, PrecisionUsed

Json = Annotated[bool, Option("Print the result as JSON.", group=OUTPUT)]
"""The switch `--json` of a command."""


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    sys.stdout.buffer.flush()


def console() -> Console:
    """Where people read; colours only on a terminal."""
    from rich.console import Console

    # A pipe has no width of its own; at 80 columns wide tables would be cut.
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, markup=False, soft_wrap=True, width=width)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """A table; numbers to the right."""
    from rich.table import Table as Grid
    from rich.text import Text

    table = Grid(title=title or None, title_justify="left", box=None, pad_edge=False)
    cells = [[clean(r if isinstance(r, str) else f"{r:,}") for r in row] for row in rows]
    least = 0
    for i, name in enumerate(head):
        right = bool(cells) and all(_numeric(row[i]) for row in cells)
        cell_widths = [len(row[i]) for row in cells if right]
        narrow = max([len(word) for word in name.split()] + cell_widths, default=1)
        least += 1 + (narrow if right else max(narrow, _NARROW))
        table.add_column(
            Text(name), justify="right" if right else "left", min_width=narrow, overflow="fold"
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    out = console()
    out.width = max(out.width, least)  # a terminal that is narrower breaks lines, not numbers
    out.print(table)


def print_tables(notes: Iterable[str], tables: Iterable[Table], rows: int) -> None:
    """The notes of a result, then its tables that have rows, each cut to so many."""
    print_notes(notes)
    for table in tables:
        if table.rows:
            short = table.folded().first(rows)
            print_table(short.head, short.rows, title=short.title)
            console().print()


def print_notes(notes: Iterable[str]) -> None:
    """What a reader should know about the figures, a line each."""
    for note in notes:
        console().print(f"note: {note}")


FIRST_SCREEN = 5
"""Answers that are printed unless all are asked for: with their sentences, what 80 × 24 characters hold."""


def print_answers(answers: Sequence[Answer]) -> None:
    """Questions with their figures, a line each, and the sentence that explains it below."""
    out = console()
    for answer in answers:
        out.print(clean(f"{answer.question} {answer.figure}"))
        out.print(clean(f"  {answer.sentence}"))


def print_csv(tables: Iterable[Table]) -> None:
    """Tables as comma-separated values, with an empty line between two of them."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, table in enumerate(table for table in tables if table.rows):
        if number:
            writer.writerow(())
        writer.writerows((table.head, *table.rows))


_NARROW = 8
"""Fewest characters a column of text keeps."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Text from a file as it may go to a terminal: control characters are shown, not sent."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _numeric(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").isdigit()


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """A function to call with (done, total or None); a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda completed, total: bar.update(task, completed=completed, total=total)


def print_recording(recording: RecordedStep | None) -> None:
    """Prints what concerns every figure that follows: warnings first, then the recorded steps."""
    if recording is None:
        return
    for line in recording.lines():
        console().print(line)


def model_line(model: ModelFigures) -> str:
    """A model's parameters and precision in one line."""
    active = model.active_parameters
    each = f" ({active:,} per token)" if active != model.parameters else ""
    return f"{model.name}: {model.parameters:,} parameters{each}; {precision_text(model.precision)}"


def precision_text(used: PrecisionUsed) -> str:
    """The precision of weights, activations and cache, and who states it."""
    group = f" in groups of {used.group}" if used.group else ""
    parts = [f"weights {used.weights}{group}, {used.weight_bytes / 1e9:,.1f} GB"]
    parts += [f"activations {used.activations}"] + ([f"cache {used.cache}"] if used.cache else [])
    parts += [f"from {used.source}"] if used.source else []
    parts += [f"the {used.in_files} of the files is for inference"] if used.in_files else []
    return ", ".join(parts)
