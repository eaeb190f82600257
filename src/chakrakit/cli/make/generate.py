"""`chakra generate`: traces of a model that never ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from chakrakit.cli.shared import console, field_options, json_option, print_json, print_table
from chakrakit.results import counted


def _with_fields(function: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for every field of a description."""
    for option in reversed(field_options()):
        function = option(function)
    return function


@click.command(name="generate", context_settings={"max_content_width": 110})
@click.argument("path", metavar="[WORKLOAD.yaml]", required=False)
@click.option(
    "--model", "model_name", metavar="M", help="A name from `chakra models`, or a config.json."
)
@click.option(
    "-o", "--output", metavar="OUT", help="A directory, NAME.N.et for one file per rank, or -."
)
@click.option("--dry-run", is_flag=True, help="Only the figures; write nothing.")
@click.option("--memory-gib", type=float, help="Refuse a plan that needs more memory per device.")
@click.option("--machine", metavar="NAME", help="Say whether the plan fits this machine.")
@json_option
@_with_fields
def command(
    path: str | None,
    model_name: str | None,
    output: str | None,
    dry_run: bool,
    memory_gib: float | None,
    machine: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Generate traces of a model under a parallel plan, with nothing run.

    The workload is a YAML file, or --model with options; options win over the file.

    \b
    chakra generate --model llama3.1-8b --dp 4 --tp 2 --seq 4096 --global-batch 32 -o out
    """
    from chakrakit.api import generate
    from chakrakit.trace.memory import said_first

    target = None if dry_run else output
    figures = generate(
        path, model=model_name, output=target, machine=machine, memory_gib=memory_gib, **fields
    ).figures
    if output == "-" and not dry_run:
        return None  # the trace is what is printed
    if as_json:
        return print_json(figures)
    if verdict := said_first(figures.fits, figures.needs_bytes, figures.has_bytes):
        console().print(verdict)
    _print(figures)
    if output and not dry_run:
        bodies = counted(len(figures.per_rank), "body", "bodies")
        console().print(f"wrote {counted(figures.ranks, 'rank')} in {bodies} to {output}")
    elif not dry_run:
        console().print("nothing written; give -o OUT")
    return None


def _print(figures: Any) -> None:
    out = console()
    active = f" ({figures.active_parameters:,} per token)" if _differs(figures) else ""
    out.print(
        f"{figures.model}: {figures.parameters:,} parameters{active}, {figures.ranks:,} ranks"
    )
    batches = counted(figures.micro_batches, "micro-batch", "micro-batches")
    out.print(
        f"{batches}, {figures.tokens:,} tokens, "
        f"{figures.flops_total:.6g} FLOPs per step, bubble {figures.bubble_fraction:.2%}"
    )
    kinds = list(dict.fromkeys(k for c in figures.per_rank for k in c.memory))
    shown = figures.per_rank[:32]
    print_table(
        ("ranks of", "ranks", "nodes", "GFLOP", *(f"{k} MiB" for k in kinds)),
        (
            (
                c.rank_class,
                c.ranks,
                c.nodes,
                c.flops // 10**9,
                *(c.memory.get(k, 0) >> 20 for k in kinds),
            )
            for c in shown
        ),
    )
    print_table(
        ("ranks of", "communication", "group", "of", "count", "bytes"),
        (
            (c.rank_class, m.type, m.group, m.ranks, m.count, m.bytes)
            for c in shown[:8]
            for m in c.comm
        ),
    )
    if len(figures.per_rank) > len(shown):
        out.print(f"and {len(figures.per_rank) - len(shown):,} more; --json has all")
    for r in figures.replicated:
        out.print(f"replicated {r.times} times: {r.name} ({r.flops:.4g} FLOPs more than once)")


def _differs(figures: Any) -> bool:
    return bool(figures.active_parameters != figures.parameters)
