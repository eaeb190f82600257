"""`chakra models`: what `chakra generate --model` knows."""

from __future__ import annotations

import click

from chakrakit.cli.shared import json_option, print_json, print_table


@click.command(name="models")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the built-in models, or show one as the description that a YAML file can change."""
    from chakrakit.api import models

    if name:
        return print_json(models(name))
    found = models()
    if as_json:
        return print_json(found)
    rows = ((m.name, m.family, m.parameters, m.active_parameters) for m in found.models)
    print_table(("model", "family", "parameters", "used by a token"), rows)
    return None
