"""`--engine` and `--jobs`: the options of commands that can spread ranks over workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from chakrakit.parallel import Workers


def engine_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--engine`."""
    return click.option(
        "--engine",
        metavar="local|ray[:ADDR]|dask[:ADDR]",
        help="Spread the ranks over workers: processes here, or a cluster.",
    )(command)


def workers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--engine` and `--jobs`."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Workers at once, one rank each; by default one a core with --engine, else none.",
    )
    return engine_option(jobs(command))


def workers_of(engine: str | None, jobs: int | None) -> Workers | None:
    """What the options ask for; None for this process alone."""
    if engine is None and (jobs or 1) == 1:
        return None
    from chakrakit.parallel import Workers, check_engine

    chosen = Workers(engine or "local", jobs)
    check_engine(chosen.engine)
    return chosen
