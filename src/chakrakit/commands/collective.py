"""`collective`: the table nccl-tests would print, on a machine that need not exist."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, console, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.machines.fabric import Machine
    from chakrakit.simulator.results import CollectiveTable

ExpertOption = partial(Option, group="Dispatch and combine of mixtures of experts")


class CollectiveOptions(TypedDict, total=False):
    """Options of `collective`."""

    dtype: Annotated[str, Option("Type of the elements.", "half")]
    kernels: Annotated[
        Literal["library", "engine", "fastest"],
        Option(
            "The communication library, the serving engines' own all-reduce, or the faster of the two.",
            "library",
        ),
    ]
    eager: Annotated[
        bool, Option("Engines launch kernels one by one instead of from a CUDA graph.", False)
    ]
    tokens: Annotated[
        Sequence[int] | str | None,
        ExpertOption("Tokens of each member, instead of --sizes: a range or a list.", None),
    ]
    hidden: Annotated[int, ExpertOption("Width of a token.", 7168)]
    topk: Annotated[int, ExpertOption("Experts of each token.", 8)]
    experts: Annotated[int, ExpertOption("Number of experts.", 256)]
    most_nodes: Annotated[
        int,
        ExpertOption(
            "The most nodes that routing sends a token to; 0 for as many as have its experts.", 4
        ),
    ]
    low_latency: Annotated[bool, ExpertOption("The kernels for decoding.", False)]
    sms: Annotated[int, ExpertOption("Multiprocessors of the other kernels.", 24)]


@public(CollectiveOptions)
def collective(
    name: Annotated[
        str,
        Positional(
            "The collective, such as `all-reduce`; or `dispatch` and `combine` of mixtures of experts.",
            metavar="COLLECTIVE",
        ),
    ],
    machine: Annotated[
        Machine | str, Option("A preset, such as dgx-h200:4, or a file; in Python also a Machine.")
    ],
    members: Annotated[
        int | Sequence[int] | str, Option("How many devices, from 0 on; or which, as in 0-3,8-11.")
    ],
    sizes: Annotated[
        Sequence[int] | str | None,
        Option(
            "Bytes: a range of powers of two (1KiB:1GiB) or a list (4096,1MiB). The full tensor of an "
            "all-reduce, the gathered output of an all-gather, the input of a reduce-scatter, one "
            "member's send buffer of an all-to-all."
        ),
    ] = None,
    **options: Unpack[CollectiveOptions],
) -> CollectiveTable:
    """Time a collective for each size, as nccl-tests would print it, with nothing else on the links.

    Returns
    -------
    A table with one row per size.

    Examples
    --------
    >>> table = ck.collective("all-reduce", "dgx-h200", 8, "1MiB:4MiB")
    >>> [row.bytes for row in table.rows]
    [1048576, 2097152, 4194304]
    >>> table.rows[0].algorithm, table.rows[0].protocol
    ('ring', 'LL')

    """
    from chakrakit.simulator.results import ExpertExchange, parse_members, time_collective

    tokens = options["tokens"]
    amounts, misplaced = (tokens, sizes) if name in ("dispatch", "combine") else (sizes, tokens)
    if name == "barrier":
        amounts = [1]
    if amounts is None or misplaced is not None:
        raise ConfigError("give --tokens for dispatch and combine, --sizes for all others")
    exchange = picked(ExpertExchange, options) | {"multiprocessors": options["sms"]}
    return time_collective(
        name,
        machine,
        parse_members(members) if isinstance(members, str) else members,
        amounts,
        exchange=ExpertExchange(**exchange),
        **{n: v for n, v in picked(time_collective, options).items() if n not in exchange},
    )


@command_of(collective)
def command(*, json: Json = False, **options: Any) -> None:
    """Time COLLECTIVE (all-reduce, all-gather, …, dispatch, combine) for every size.

    A size is what nccl-tests calls size.

    \b
    chakra collective all-reduce --machine dgx-h100 --members 8 --sizes 1KiB:1GiB
    chakra collective all-to-all --machine dgx-h200:4 --members 32 --sizes 16MiB
    """
    table = collective(**options)
    if json:
        return print_json(table)
    return _print(table)


def _print(table: CollectiveTable) -> None:
    heads = ["bytes", "time us", "algorithm", "protocol", "algbw GB/s", "busbw GB/s"]
    heads[2:2] = ["interval us"] if table.rows[0].interval_us else []
    heads += [f"{name} us" for name in table.rows[0].terms_us or {}]
    rows = [
        (
            f"{r.bytes:,}",
            f"{r.time_us:.2f}",
            *([f"{r.interval_us[0]:,.0f}–{r.interval_us[1]:,.0f}"] if r.interval_us else []),
            r.algorithm,
            r.protocol,
            f"{r.algbw_gbs:.2f}",
            f"{r.busbw_gbs:.2f}",
            *(f"{us:.2f}" for us in (r.terms_us or {}).values()),
        )
        for r in table.rows
    ]
    print_table(heads, rows)
    for note in table.notes:
        console().print(note)
