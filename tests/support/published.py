"""What users may rely on by name: commands, options, their choices, passes' fields and keys of `--json`.

`python tests/support/published.py` adds names that are new to `tests/commands/published.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from chakrakit.commands import group
from chakrakit.commands.schemas import FILES, RESULTS, result_type
from chakrakit.passes.base import list_passes

LIST = Path(__file__).parents[1] / "commands" / "published.txt"


def published_names() -> set[str]:
    """All names, one line each: `simulate --network=flow`, `simulate fold.factor`, `select{ranks}`."""
    return {*_words(), *_pass_fields(), *_keys()}


def _words() -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield name
        command = group.get_command(context, name)
        assert command is not None
        for option in command.params:
            if not isinstance(option, click.Option):
                continue
            choices = option.type.choices if isinstance(option.type, click.Choice) else ()
            for flag in (*option.opts, *option.secondary_opts):
                yield f"{name} {flag}"
                yield from (f"{name} {flag}={choice}" for choice in choices)


def _pass_fields() -> Iterator[str]:
    for one in list_passes().passes:
        yield one.name
        yield from (f"{one.name}{{{field}}}" for field in one.fields)


def _keys() -> Iterator[str]:
    for name in (*RESULTS, *FILES):
        schema = msgspec.json.schema(result_type(name))
        yield from (f"{name} {key}" for key in _below(schema, schema.get("$defs", {}), "", ()))


def _below(
    schema: dict[str, Any], parts: dict[str, Any], path: str, inside: tuple[str, ...]
) -> Iterator[str]:
    """The paths of all keys; `[]` stands for the entries of a list, `{}` for those of a mapping."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in inside:
            yield from _below(parts[name], parts, path, (*inside, name))
        return
    for one in (*schema.get("anyOf", ()), *schema.get("prefixItems", ())):
        yield from _below(one, parts, path, inside)
    for key, value in schema.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        yield here
        yield from _below(value, parts, here, inside)
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(keyword), dict):
            yield from _below(schema[keyword], parts, path + mark, inside)


if __name__ == "__main__":
    known = set(LIST.read_text().splitlines()) if LIST.exists() else set()
    LIST.write_text("".join(f"{name}\n" for name in sorted(known | published_names())))
