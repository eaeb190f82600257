"""`collective`: the table nccl-tests would print, on a machine that need not exist."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, console, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.machines.fabric import Machine
    from chakrakit.simulator.results import CollectiveTable

ExpertOption = partial(Option, group="Dispatch and combine of mixtures of experts")


class CollectiveOptions(TypedDict, total=False):
    """Options of `collective`."""

    against: Annotated[
        Path_ | None,
        Option(
            "A log of nccl-tests: its sizes, what each took beside what is expected, and what is slower.",
            None,
            metavar="LOG",
        ),
    ]
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
        int | Sequence[int] | str | None,
        Option(
            "How many devices, from 0 on; or which, as in 0-3,8-11. With --against, as many as the log says."
        ),
    ] = None,
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

    With `against`, a log of nccl-tests, `measured` has the time of each size beside the expected one and the
    interval in which 90 of 100 measured times should lie; the first notes name what is slower or faster.

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

    chosen = parse_members(members) if isinstance(members, str) else members
    if options["against"] is not None:
        if sizes is not None:
            raise ConfigError("the log of --against says the sizes; leave --sizes out")
        return _against(Path(options["against"]), name, machine, chosen, options["dtype"])
    if chosen is None:
        raise ConfigError("give --members: how many devices take part, or which")
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
        chosen,
        amounts,
        exchange=ExpertExchange(**exchange),
        **{n: v for n, v in picked(time_collective, options).items() if n not in exchange},
    )


def _against(
    log: Path, name: str, machine: Machine | str, members: int | Sequence[int] | None, dtype: str
) -> CollectiveTable:
    """The expected times of the sizes of a log beside the measured ones."""
    from chakrakit.machines import load_machine, read_nccl_log
    from chakrakit.simulator.results import beside_measured, collective_name, time_collective

    loaded = load_machine(machine) if isinstance(machine, str) else machine
    count = members if members is None or isinstance(members, int) else len(members)
    asked = collective_name(name)
    runs = read_nccl_log(log, asked, count or 0)
    alike = [run for run in runs if run[0] == asked and count in (None, run[1])]
    if len({ranks for _, ranks, _ in alike}) != 1:
        held = ", ".join(dict.fromkeys(f"{kind} of {ranks}" for kind, ranks, _ in runs))
        wanted = asked if count is None else f"{asked} of {count}"
        raise ConfigError(f"{log}: holds {held}; it was asked for {wanted}; choose with --members")
    took: dict[int, list[float]] = {}
    for size, us in (point for _, _, points in alike for point in points):
        took.setdefault(int(size), []).append(us)
    placed = alike[0][1] if members is None else members
    table = time_collective(asked, loaded, placed, sorted(took), dtype=dtype)
    return beside_measured(table, loaded, placed, {size: median(us) for size, us in took.items()})


@command_of(collective)
def command(*, json: Json = False, **options: Any) -> None:
    """Time COLLECTIVE (all-reduce, all-gather, …, dispatch, combine) for every size.

    A size is what nccl-tests calls size.

    \b
    chakra collective all-reduce --machine dgx-h100 --members 8 --sizes 1KiB:1GiB
    chakra collective all-to-all --machine dgx-h200:4 --members 32 --sizes 16MiB
    chakra collective all-reduce --machine dgx-h100:2 --against all_reduce.log
    """
    table = collective(**options)
    if json:
        return print_json(table)
    return _print(table)


def _print(table: CollectiveTable) -> None:
    if table.measured:
        _print_beside(table)
        return
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


def _print_beside(table: CollectiveTable) -> None:
    heads = ("bytes", "measured us", "expected us", "interval us", "ratio", "busbw GB/s")
    rows = [
        (
            f"{r.bytes:,}",
            f"{r.measured_us:,.1f}",
            f"{r.expected_us:,.1f}",
            f"{r.interval_us[0]:,.1f}–{r.interval_us[1]:,.1f}" if r.interval_us else "–",
            f"{r.ratio:.2f}",
            f"{r.busbw_gbs:,.1f}",
        )
        for r in table.measured
    ]
    print_table(heads, rows)
    for note in table.notes:
        console().print(note)
