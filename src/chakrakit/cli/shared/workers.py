"""`--engine` and `--jobs`: the options of commands that can spread ranks over workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def engine_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--engine`."""
    return click.option(
        "--engine",
        metavar="local|ray[:ADDR]|dask[:ADDR]",
        help="Spread the work over processes here, or over a cluster.",
    )(command)


def workers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--engine` and `--jobs`."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Workers at once, one rank each; by default one per core with --engine, else none.",
    )
    return engine_option(jobs(command))
