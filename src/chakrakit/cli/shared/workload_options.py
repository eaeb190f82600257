"""Options for every field of a workload description, made from its types."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import click
import msgspec

Option = Callable[[Callable[..., None]], Callable[..., None]]

_SKIP = {"lengths", "tasks", "tables", "bottom", "top", "patch"}
"""Fields that do not fit on a command line; a YAML file has them."""


def _parts() -> dict[str, tuple[type, ...]]:
    from chakrakit.workloads.description import description as d

    return {
        "model": (d.Decoder, d.Vision, d.Diffusion, d.Recommender, d.Convolutional),
        "plan": (d.Plan,),
        "step": (d.Step,),
        "lengths": (d.Lengths,),
    }


def _fields() -> dict[str, tuple[str, Any]]:
    """Field name → (part, type). Of equal names the plan's and the step's win over the model's."""
    found: dict[str, tuple[str, Any]] = {}
    for part in ("plan", "step", "lengths", "model"):
        for struct in _parts()[part]:
            hints = typing.get_type_hints(struct)
            for field in msgspec.structs.fields(struct):
                if field.name not in _SKIP:
                    found.setdefault(field.name, (part, hints[field.name]))
    return found


def field_options() -> list[Option]:
    """A click option for every field."""
    return [_option(name, part, kind) for name, (part, kind) in _fields().items()]


def _option(name: str, part: str, kind: Any) -> Option:
    flag = f"--{name.replace('_', '-')}"
    target = f"{part}__{name}"
    arms = [a for a in typing.get_args(kind) if a is not type(None)]
    if typing.get_origin(kind) is typing.Literal:
        choices = [str(a) for a in arms]
        return click.option(flag, target, type=click.Choice(choices), help=f"({part})")
    base = next((a for a in arms if a in (int, str, float)), kind)
    if base is bool:
        return click.option(
            f"{flag}/--no-{name.replace('_', '-')}", target, default=None, help=f"({part})"
        )
    if typing.get_origin(base) is list or (arms and typing.get_origin(kind) is list):
        return click.option(flag, target, metavar="N,N,…", help=f"({part})")
    return click.option(flag, target, type=base, help=f"({part})")


def chosen(path: str | None, model: str | None, fields: dict[str, Any]) -> Any:
    """The workload of a file and options; options win."""
    from chakrakit.errors import ConfigError
    from chakrakit.workloads.models import from_plain, named, read_workload

    plain: dict[str, Any] = {}
    if path:
        plain = msgspec.to_builtins(read_workload(path))
    if model:
        plain["model"] = msgspec.to_builtins(named(model))
    if "model" not in plain:
        raise ConfigError("no model; give --model M (see `chakra models`) or a WORKLOAD.yaml")
    for key, value in fields.items():
        if value is not None:
            part, _, name = key.partition("__")
            text = _numbers(name, value) if name == "split" else value
            section = (
                plain.setdefault("step", {}).setdefault("lengths", {})
                if part == "lengths"
                else plain.setdefault(part, {})
            )
            section[name] = text
    return from_plain(plain, path or "options")


def _numbers(name: str, text: str) -> list[int]:
    from chakrakit.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{name} {text}: give whole numbers with commas, like 8,8,7") from None
