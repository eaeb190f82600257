"""`compare`: what differs between two runs, and what explains it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, traces_of
from chakrakit.commands.opening import said
from chakrakit.commands.options import OUTPUT, Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_notes, print_tables

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.insight import Comparison
    from chakrakit.trace.sets import Run


class CompareOptions(TypedDict, total=False):
    """Options of `compare`."""

    fail_if: Annotated[
        Sequence[str],
        Option(
            "A rule that B should keep, such as 'step>3%', 'exposed_comm>2ms' or 'memory>5%'. The result "
            "says which are broken; the command then exits with 1. A change of the step that could be zero "
            "breaks none, and is said.",
            (),
            metavar="RULE",
        ),
    ]
    output: Annotated[
        Path_ | None,
        Option(
            "Write the comparison here as Markdown: broken rules, the step and what explains it, as a "
            "comment on a change would say it.",
            None,
            flags="-o --output",
            metavar="FILE.md",
        ),
    ]


@public(CompareOptions)
def compare(
    a: Annotated[
        Traces | Sequence[Traces],
        Positional("A run; in Python also several of a kind, which give the noise.", metavar="A"),
    ],
    b: Annotated[Traces | Sequence[Traces], Positional("The run to compare with it.", metavar="B")],
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare run `b` with run `a`: the step, what explains its change, operators, modules, groups.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> runs = [ck.simulate(traces, m, compute="roofline").run() for m in ("dgx-h100", "dgx-a100")]
    >>> comparison = ck.compare(*runs)
    >>> comparison.step.b_ns > comparison.step.a_ns
    True

    """
    from chakrakit.insight import compare as compare_runs
    from chakrakit.insight import doubts, failures, parse_rule

    for rule in options["fail_if"]:
        parse_rule(rule)
    result = compare_runs(_runs(a), _runs(b))
    result.broken = failures(result, options["fail_if"])
    result.undecided = doubts(result, options["fail_if"])
    if options["output"] is not None:
        _write_comment(result, options["output"])
    return result


def _write_comment(comparison: Comparison, path: Path_) -> None:
    from chakrakit.trace.files import open_output
    from chakrakit.views import markdown_comparison

    with open_output(os.fspath(path), binary_only=False) as stream:
        stream.write(markdown_comparison(comparison).encode())


def _runs(runs: Traces | Sequence[Traces]) -> list[Run]:
    several = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    return [traces_of(run, timed=True) for run in several]


@command_of(compare)
def command(
    a: str,
    b: str,
    *,
    fail_if: tuple[str, ...],
    output: str | None,
    also_a: Annotated[
        Sequence[str], Option("More runs of A's kind: they give the noise.", metavar="RUN")
    ] = (),
    also_b: Annotated[Sequence[str], Option("More runs of B's kind.", metavar="RUN")] = (),
    full: Annotated[
        bool,
        Option(
            "Print all tables: in detail, by what ranks do, operators, modules, groups.",
            group=OUTPUT,
        ),
    ] = False,
    rows: Annotated[int, Option("At most this many rows per table.", group=OUTPUT)] = 15,
    json: Json = False,
) -> None:
    """Compare run B with run A: the step, what explains its change, operators, modules, groups.

    \b
    chakra compare before after      # the step and what explains it; or --full
    chakra compare before after --fail-if 'step>3%'
    """
    kinds = ([said(run) for run in several] for several in ([a, *also_a], [b, *also_b]))
    result = compare(*kinds, fail_if=fail_if, output=output)
    if json:
        print_json(result)
    else:
        if result.warning:
            console().print(f"warning: {result.warning}")
        print_tables((), result.answers(), rows)
        if bounds := _bounds(result):
            console().print(bounds)
        print_notes(result.notes)
        _print_details(result, f"{a} {b}", rows, full=full)
    for why in result.undecided:
        click.echo(f"not decided: {why}", err=True)
    for why in result.broken:
        click.echo(f"fails: {why}", err=True)
    if result.broken:
        sys.exit(1)


_PARTS = {
    "compute": "compute",
    "exposed_comm": "exposed communication",
    "exposed_copy": "exposed copies",
    "bubble": "bubble",
    "idle": "idle",
}
"""What a rank's step is made of: names of metrics and of what people read."""


def _bounds(result: Comparison) -> str:
    """What the step of B is made of: what a change elsewhere cannot save."""
    if result.serving is not None or not result.step.b_ns:
        return ""
    shares = {n: result.metrics[n][1] / result.step.b_ns for n in _PARTS if n in result.metrics}
    parts = [
        f"{_PARTS[n]} {share:.1%}".replace("%", " %")
        for n, share in shares.items()
        if share >= 0.0005
    ]
    return f"of B's step: {', '.join(parts)}" if parts else ""


def _print_details(result: Comparison, runs: str, rows: int, *, full: bool) -> None:
    """All other tables, or where they are."""
    if full:
        print_tables((), result.details(), rows)
    else:
        console().print(f"more: chakra compare {runs} --full, chakra view {runs}")
