"""`machines`: the machines that come with the package, listed and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.machines import MachinesReport


@public()
def list_machines(
    name: Annotated[
        str | None,
        Positional(
            "A preset (`dgx-h100`, `dgx-h100:32`) or a file; in Python `load_machine` gives the machine "
            "itself.",
            metavar="[NAME]",
        ),
    ] = None,
) -> MachinesReport:
    """List the machines that come with the package, or describe one of them.

    Examples
    --------
    >>> "dgx-h100" in [p.name for p in ck.list_machines().presets]
    True
    >>> ck.list_machines("dgx-h100:2").machine.devices
    16

    """
    from chakrakit.machines import MachinesReport, describe, load_machine, overview

    if name is None:
        return MachinesReport(presets=overview())
    return MachinesReport(machine=describe(load_machine(name)))


@command_of(list_machines)
def command(name: str | None, *, json: Json = False) -> None:
    """List the presets, or draw one: NAME, NAME:NODES, or a file.

    Files are our own YAML or JSON, InfraGraph's, or ASTRA-sim's network YAML.

    \b
    chakra machines
    chakra machines dgx-h100:4
    """
    from chakrakit.machines import draw, load_machine

    if json:
        return print_json(list_machines(name))
    if name is None:
        presets = list_machines().presets
        heads = ("name", "device", "devices", "network", "bf16 TFLOP/s", "memory GB", "GB/s")
        fields = [[getattr(p, f) for f in p.__struct_fields__] for p in presets]
        return print_table(heads, [(*f[:3], _network(f[3]), *f[4:]) for f in fields])
    return console().print(draw(load_machine(name)))


def _network(dimensions: str) -> str:
    """`switch` for one dimension, whose size is the number of devices, and `4×4×4` for a torus of rings."""
    kinds, sizes = zip(*(part.split() for part in dimensions.split(" × ")), strict=True)
    if len(kinds) == 1:
        return str(kinds[0])
    return "×".join(sizes) if set(kinds) == {"ring"} else dimensions
