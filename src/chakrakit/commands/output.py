"""What the commands print: JSON for machines, tables for people, progress on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click

from chakrakit.commands.options import OUTPUT, Option
from chakrakit.commands.terminal import Console, clean, moving_bar, table_lines

if TYPE_CHECKING:
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
    """Where people read."""
    return Console()


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """A table; numbers to the right."""
    out = console()
    if title:
        out.print(title)
    cells = [[clean(r if isinstance(r, str) else f"{r:,}") for r in row] for row in rows]
    for line in table_lines([clean(name) for name in head], cells, out.width):
        click.echo(line)


def print_tables(notes: Iterable[str], tables: Iterable[Table], rows: int) -> None:
    """The notes of a result, then its tables that have rows, each cut to so many."""
    print_notes(notes)
    for table in tables:
        if table.rows:
            short = _fitting(table.folded().first(rows))
            print_table(short.head, short.rows, title=short.title)
            console().print()


def _fitting(table: Table) -> Table:
    """The table, on a terminal that is too narrow for it without columns that hold nothing but 0."""
    from chakrakit.insight.rank import Table

    cells = [[r if isinstance(r, str) else f"{r:,}" for r in row] for row in table.rows]
    width = console().width
    if max(map(len, table_lines(table.head, cells, width))) <= width:
        return table
    kept = [i for i in range(len(table.head)) if any(row[i] != 0 for row in table.rows)]
    title = f"{table.title}; columns of zeros are left out"
    return Table.of(
        table.title if len(kept) == len(table.head) else title,
        [table.head[i] for i in kept],
        [[row[i] for i in kept] for row in table.rows],
    )


def print_notes(notes: Iterable[str]) -> None:
    """What a reader should know about the figures, a line each."""
    for note in notes:
        console().print(f"note: {note}")


FIRST_SCREEN = 4
"""Answers that are printed unless all are asked for: the figure, its cause, what would help, and the next."""


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


def progress(label: str) -> contextlib.AbstractContextManager[Callable[[int, int | None], None]]:
    """A function to call with (done, total or None); a bar on a terminal, nothing in a pipe."""
    return moving_bar(label)


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
