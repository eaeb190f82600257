"""Options for every field of a workload description, made from its types."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import click

Option = Callable[[Callable[..., None]], Callable[..., None]]


def field_options() -> list[Option]:
    """A click option for every field."""
    from chakrakit.workloads.models import field_docs, field_types

    docs = field_docs()
    return [
        _option(name, kind, f"{docs[name]} ({part})")
        for name, (part, kind) in field_types().items()
    ]


def _option(name: str, kind: Any, told: str) -> Option:
    spelled = name.replace("_", "-")
    arms = [a for a in typing.get_args(kind) if a is not type(None)]
    base = next((a for a in arms if a in (int, str, float)), kind)
    if typing.get_origin(kind) is typing.Literal:
        choices = click.Choice([str(a) for a in arms])
        return click.option(f"--{spelled}", name, type=choices, help=told)
    if typing.get_origin(kind) is list:
        return click.option(f"--{spelled}", name, metavar="N,N,…", callback=_numbers, help=told)
    if base is bool:
        return click.option(f"--{spelled}/--no-{spelled}", name, default=None, help=told)
    return click.option(f"--{spelled}", name, type=base, help=told)


def _numbers(_context: click.Context, option: click.Parameter, text: str | None) -> Any:
    from chakrakit.errors import ConfigError

    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"{option.opts[0]} {text}: give whole numbers with commas, like 8,8,7"
        ) from None
