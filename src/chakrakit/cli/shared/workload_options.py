"""Options for every field of a workload description, made from its types."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import click

Option = Callable[[Callable[..., None]], Callable[..., None]]


def field_options() -> list[Option]:
    """A click option for every field."""
    from chakrakit.workloads.models import field_types

    return [_option(name, part, kind) for name, (part, kind) in field_types().items()]


def _option(name: str, part: str, kind: Any) -> Option:
    flag = f"--{name.replace('_', '-')}"
    arms = [a for a in typing.get_args(kind) if a is not type(None)]
    if typing.get_origin(kind) is typing.Literal:
        choices = [str(a) for a in arms]
        return click.option(flag, name, type=click.Choice(choices), help=f"({part})")
    base = next((a for a in arms if a in (int, str, float)), kind)
    if base is bool:
        return click.option(
            f"{flag}/--no-{name.replace('_', '-')}", name, default=None, help=f"({part})"
        )
    if typing.get_origin(base) is list or (arms and typing.get_origin(kind) is list):
        return click.option(flag, name, metavar="N,N,…", callback=_numbers, help=f"({part})")
    return click.option(flag, name, type=base, help=f"({part})")


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
