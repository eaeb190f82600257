"""`chakra machines`: the machines that come with the package, listed and drawn."""

from __future__ import annotations

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table


@click.command(name="machines")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the presets, or draw one: NAME, NAME:NODES, or a file.

    Files are our own YAML or JSON, InfraGraph's, or ASTRA-sim's network YAML.
    """
    from chakrakit.api import list_machines
    from chakrakit.machines.load import draw, load_machine

    if as_json:
        return print_json(list_machines(name))
    if name is None:
        presets = list_machines().presets
        heads = ("name", "device", "devices", "dimensions", "bf16 TFLOP/s", "memory GB", "GB/s")
        return print_table(
            heads, [tuple(getattr(p, f) for f in p.__struct_fields__) for p in presets]
        )
    return console().print(draw(load_machine(name)), markup=False)
