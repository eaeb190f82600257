"""`chakra search`: the best plan of a model on a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.explore.script_flags import print_script
from chakrakit.cli.explore.served_plans import print_served
from chakrakit.cli.shared import console, json_option, print_json, print_table, progress

if TYPE_CHECKING:
    from chakrakit.studies.search import PlanResult, SearchResult

_NUMBERS = ("tp", "pp", "cp", "ep", "micro_batch", "batch_tokens", "batch_requests")
_WORDS = ("data", "recompute", "schedule", "pools")
_ONLY_SERVED = {
    "batch_tokens": "With --serve: most tokens of a step.",
    "batch_requests": "With --serve: most requests of a step.",
    "pools": "With --serve: prefill and decode `together`, `apart`, or both.",
}


def _axis_options(function: Callable[..., None]) -> Callable[..., None]:
    """An option for each axis of the space."""
    for name in reversed(_NUMBERS + _WORDS):
        some = "N,N,…" if name in _NUMBERS else "A,B,…"
        flag = f"--{name.replace('_', '-')}"
        told = _ONLY_SERVED.get(name, "Consider only these values.")
        function = click.option(flag, name, metavar=some, help=told)(function)
    return function


@click.command(name="search")
@click.option("--model", metavar="M", help="A name from `chakra models`, or a config.json.")
@click.option(
    "--capture",
    metavar="COMMAND",
    help="Instead of a model: a script with places for flags, as 'python train.py --tp {tp}'.",
)
@click.option(
    "--axis",
    "flags",
    multiple=True,
    metavar="NAME=A,B,…",
    help="With --capture: what to put in the place {NAME}.",
)
@click.option(
    "--device", default="", metavar="NAME", help="With --capture, as for `chakra capture`."
)
@click.option(
    "--gpus",
    required=True,
    metavar="N[,N…]",
    help="How many devices; several to choose from. With --serve, a single number is the maximum.",
)
@click.option(
    "--machine",
    required=True,
    metavar="NAME_OR_FILE",
    help="A preset gets as many nodes as the devices need.",
)
@click.option("--serve", is_flag=True, help="Search for the cheapest way to serve requests.")
@click.option("--requests", metavar="FILE|PROCESS", help="With --serve, as for `chakra serve`.")
@click.option(
    "--engine",
    default="vllm",
    show_default=True,
    metavar="NAME{OPTION=VALUE}",
    help="With --serve, as for `chakra serve`.",
)
@click.option("--slo", metavar="ttft=MS,tpot=MS", help="With --serve: the service level.")
@click.option(
    "--attain",
    type=float,
    default=0.99,
    show_default=True,
    help="With --serve: share of the requests within the level.",
)
@click.option(
    "--objective",
    type=click.Choice(["step", "energy", "price"]),
    default="step",
    show_default=True,
    help="What to minimize.",
)
@click.option(
    "--batch", type=int, help="Sequences in a step over all devices; by default one per device."
)
@click.option("--seq", type=int, default=4096, show_default=True, help="Tokens of a sequence.")
@click.option(
    "--compute",
    default="auto",
    show_default=True,
    metavar="auto|roofline|PROFILE",
    help="How long operations take, as for `chakra simulate`.",
)
@click.option(
    "--price-per-hour", type=float, help="Price of a device, where the machine does not give it."
)
@click.option(
    "--method",
    type=click.Choice(["auto", "exhaustive", "optuna"]),
    default="auto",
    show_default=True,
    help="Look at every plan, or sample them; auto: sample where there are too many.",
)
@click.option("--trials", type=int, default=300, show_default=True, help="Plans that optuna tries.")
@click.option(
    "--runners-up",
    "runners_up",
    type=int,
    default=5,
    show_default=True,
    help="How many other plans to list.",
)
@click.option("-o", "--output", metavar="DIR", help="Write the best plan's traces, or its Run.")
@json_option
@_axis_options
def command(
    model: str | None,
    gpus: str,
    flags: tuple[str, ...],
    batch: int | None,
    seq: int,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the fastest plan (or the cheapest, or the thriftiest) that fits the devices' memory.

    Every combination of tp, pp, cp, ep, micro-batch, data parallelism, recomputation and schedule is
    given a lower bound; the simulator decides between those whose bounds do not rule them out.

    \b
    chakra search --model llama-3.1-70b --gpus 256 --machine dgx-h100 -o best
    chakra search --serve --model llama-3.1-8b --gpus 8 --machine dgx-h100 --slo ttft=500,tpot=30 \\
        --requests 'poisson{rate=20,prompt=1024,output=128}'
    chakra search --capture 'torchrun train.py --tp {tp}' --axis tp=1,2,4,8 --gpus 64 --machine dgx-h100
    """
    from chakrakit.api import search

    if (model is None) == (options["capture"] is None):
        raise click.UsageError("give --model or --capture, and not both")
    axes: dict[str, Any] = {n: _numbers(n, options.pop(n)) for n in _NUMBERS}
    axes |= {n: _words(options.pop(n)) for n in _WORDS}
    axes |= {name: _words(values) for name, _, values in (f.partition("=") for f in flags)}
    axes = {name: chosen for name, chosen in axes.items() if chosen}
    with progress("plans") as show:
        found: Any = search(
            model,
            _numbers("gpus", gpus),
            batch=batch,
            seq=seq,
            output=output,
            progress=show,
            **options,
            **axes,
        ).result
    if as_json:
        return print_json(found)
    if options["serve"]:
        return print_served(found)
    if options["capture"] is not None:
        return print_script(found, output)
    _print(found, output, options["compute"])
    return None


def _numbers(name: str, text: str | None) -> list[int]:
    from chakrakit.errors import ConfigError

    try:
        return [int(part) for part in _words(text)]
    except ValueError:
        flag = name.replace("_", "-")
        raise ConfigError(f"--{flag} {text}: give whole numbers with commas, like 1,2,4") from None


def _words(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _print(found: SearchResult, output: str | None, compute: str) -> None:
    out = console()
    plans = [("best", found.best), *((str(i), r) for i, r in enumerate(found.runners_up, 2))]
    head = (
        "",
        "gpus",
        "dp",
        "tp",
        "pp",
        "cp",
        "ep",
        "batch",
        "data",
        "recompute",
        "schedule",
        "step ms",
        "MFU %",
        "GiB",
    )
    print_table(head, [(name, *_cells(plan)) for name, plan in plans])
    out.print(f"best: {found.best.why}")
    for name, plan in plans[1:]:
        out.print(f"{name}: {plan.why}")
    out.print(
        f"{found.evaluated:,} plans simulated, {found.pruned:,} decided by their bounds, "
        f"{found.over_memory:,} of them by memory; {found.method}, by {found.objective}, on "
        f"{found.machine}"
    )
    if output:
        out.print(f"again: chakra simulate {output} --machine {found.machine} --compute {compute}")


def _cells(plan: PlanResult) -> tuple[object, ...]:
    schedule = plan.schedule + (f"/{plan.chunks}" if plan.chunks > 1 else "")
    mfu = f"{100 * plan.mfu:.1f}" if plan.mfu is not None else ""
    memory = f"{plan.memory_bytes / 2**30:.1f}"
    return (
        plan.gpus,
        plan.dp,
        plan.tp,
        plan.pp,
        plan.cp,
        plan.ep,
        plan.micro_batch,
        plan.data,
        plan.recompute,
        schedule,
        f"{plan.step_ns / 1e6:,.1f}",
        mfu,
        memory,
    )
