"""`chakra models`: what `chakra generate --model` knows."""

from __future__ import annotations

import click

from chakrakit.cli.output import json_option, print_json, print_table


@click.command(name="models")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the built-in models, or show one as the description that a YAML file can change."""
    import msgspec

    from chakrakit.workloads.description import Workload
    from chakrakit.workloads.dry_run import parameters
    from chakrakit.workloads.models import named
    from chakrakit.workloads.models.catalog import catalog

    if name:
        return print_json(msgspec.to_builtins(named(name)))
    rows = []
    for key, model in catalog().items():
        total, active = parameters(Workload(model=model))
        family = str(msgspec.to_builtins(model)["family"])
        rows.append(
            {"name": key, "family": family, "parameters": total, "active_parameters": active}
        )
    if as_json:
        return print_json(rows)
    print_table(("model", "family", "parameters", "a token"), (tuple(r.values()) for r in rows))
    return None
