"""`chakra collective`: the table nccl-tests would print, on a machine that need not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.shared import json_option, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.simulator.results import CollectiveTable


@click.command(name="collective")
@click.argument("name", metavar="COLLECTIVE")
@click.option("--machine", required=True, help="A preset, such as dgx-h200:4, or a file.")
@click.option(
    "--members", required=True, help="How many devices, from 0 on; or which, as in 0-3,8-11."
)
@click.option("--sizes", help="Bytes: a range of powers of two (1KiB:1GiB) or a list (4096,1MiB).")
@click.option("--dtype", default="half", show_default=True, help="Type of the elements.")
@click.option(
    "--kernels",
    type=click.Choice(["library", "engine", "fastest"]),
    default="library",
    show_default=True,
    help="The communication library, the serving engines' own all-reduce, or the faster of the two.",
)
@click.option(
    "--eager", is_flag=True, help="Engines launch kernels one by one instead of from a CUDA graph."
)
@click.option(
    "--tokens", help="Tokens of each member, for dispatch and combine: a range or a list."
)
@click.option("--hidden", type=int, default=7168, show_default=True, help="Width of a token.")
@click.option("--topk", type=int, default=8, show_default=True, help="Experts of each token.")
@click.option("--experts", type=int, default=256, show_default=True, help="Number of experts.")
@click.option("--low-latency", is_flag=True, help="The kernels for decoding.")
@click.option(
    "--sms", type=int, default=24, show_default=True, help="Multiprocessors of throughput kernels."
)
@json_option
def command(as_json: bool, **settings: Any) -> None:
    """Time COLLECTIVE (all-reduce, all-gather, …, dispatch, combine) for every size.

    A size is what nccl-tests calls size: the full tensor of an all-reduce, the gathered output of an
    all-gather, the input of a reduce-scatter, one member's send buffer of an all-to-all.
    """
    from chakrakit.api import collective

    table = collective(**settings)
    if as_json:
        return print_json(table)
    return _print(table)


def _print(table: CollectiveTable) -> None:
    heads = ("bytes", "time us", "algorithm", "protocol", "algbw GB/s", "busbw GB/s")
    rows = [
        (
            f"{r.bytes:,}",
            f"{r.time_us:.2f}",
            r.algorithm,
            r.protocol,
            f"{r.algbw_gbs:.2f}",
            f"{r.busbw_gbs:.2f}",
        )
        for r in table.rows
    ]
    print_table(heads, rows)
