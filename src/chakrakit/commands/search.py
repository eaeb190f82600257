"""`search`: the best plan of a model, the cheapest way to serve it, or a script's best flags.

Three searches with a result of their own each; `search` and the command choose by what they are given.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict, Unpack, overload

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import (
    Path_,
    ProgressOption,
    numbers_of,
    pairs_of,
    progress_of,
    words_of,
)
from chakrakit.commands.options import Option, changed, fields_of, public
from chakrakit.commands.output import Json, console, model_line, print_json, print_table, progress
from chakrakit.errors import ConfigError
from chakrakit.results import MFU, three_digits

if TYPE_CHECKING:
    from chakrakit.commands.results import FoundPlan, FoundScript, FoundService
    from chakrakit.exploration.search import (
        PlanResult,
        ScriptPlan,
        ScriptSearchResult,
        SearchResult,
        ServingPlan,
        ServingSearchResult,
    )

Sampling = partial(Option, group="How to search")
Serving = partial(Option, group="With --serve")
Capturing = partial(Option, group="With --capture")
Numbers = partial(
    Option, group="Consider only these values", metavar="N,N,…", joined=True, parse=numbers_of
)
Words = partial(
    Option, group="Consider only these values", metavar="A,B,…", joined=True, parse=words_of
)
MODEL = Option(
    "A name from `chakra models`, or the path of a Hugging Face `config.json`.", metavar="M"
)
GPUS = Option(
    "How many devices; several to choose from. With --serve, a single number is the maximum.",
    metavar="N[,N…]",
    parse=numbers_of,
)
MACHINE = Option(
    "A preset gets as many nodes as the devices need. With --serve several may be given, as in "
    "dgx-h100,dgx-h200: the cheapest is found.",
    metavar="NAME_OR_FILE",
)


class SearchSettings(ProgressOption, total=False):
    """What every search has."""

    compute: Annotated[
        str,
        Option(
            "How long operations take, as for `chakra simulate`.",
            "auto",
            metavar="auto|roofline|PROFILE",
        ),
    ]
    price_per_hour: Annotated[
        float | None,
        Option(
            "Your price of a device, in place of the machine's; of several machines, of those that state "
            "none.",
            None,
        ),
    ]
    runners_up: Annotated[int, Sampling("How many other plans to list.", 5)]
    output: Annotated[
        Path_ | None,
        Option(
            "Write the best plan's traces, or the Run of the best way to serve.",
            None,
            flags="-o --output",
            metavar="DIR",
        ),
    ]


class ConfigurationOption(TypedDict, total=False):
    """Whether settings of frameworks or engines are written."""

    configurations: Annotated[
        Path_ | None,
        Option(
            "Write what runs the best plan: settings of torchtitan, Megatron-Core, NeMo, DeepSpeed and "
            "Accelerate; with --serve of vLLM, SGLang, TensorRT-LLM, Dynamo and llm-d.",
            None,
            metavar="DIR",
        ),
    ]


class ObjectiveOption(TypedDict, total=False):
    """What a step is judged by."""

    objective: Annotated[Literal["step", "energy", "price"], Option("What to minimize.", "step")]


class ModelAxes(TypedDict, total=False):
    """What may be chosen for a model that is trained or served."""

    tp: Annotated[Sequence[int], Numbers("Tensor-parallel ranks.", ())]
    pp: Annotated[Sequence[int], Numbers("Pipeline stages.", ())]
    ep: Annotated[Sequence[int], Numbers("Expert-parallel ranks.", ())]


class PlanAxes(TypedDict, total=False):
    """What may be chosen for training alone."""

    cp: Annotated[Sequence[int], Numbers("Context-parallel ranks.", ())]
    micro_batch: Annotated[
        Sequence[int],
        Numbers("Sequences of a micro-batch; by default up to 8 that divide the batch.", ()),
    ]
    data: Annotated[Sequence[str], Words("Kinds of data parallelism.", ())]
    recompute: Annotated[Sequence[str], Words("What is computed again.", ())]
    schedule: Annotated[Sequence[str], Words("Schedules of the pipeline.", ())]


class ServiceAxes(TypedDict, total=False):
    """What may be chosen for serving alone."""

    batch_tokens: Annotated[Sequence[int], Numbers("With --serve: most tokens of a step.", ())]
    batch_requests: Annotated[Sequence[int], Numbers("With --serve: most requests of a step.", ())]
    pools: Annotated[
        Sequence[str], Words("With --serve: prefill and decode `together`, `apart`, or both.", ())
    ]


class PlanSettings(TypedDict, total=False):
    """What only the search for a training plan has."""

    batch: Annotated[
        int | None,
        Option(
            "Sequences in a step over all devices; by default one per device.",
            None,
            flags="--batch --global-batch",
        ),
    ]
    seq: Annotated[int, Option("Tokens of a sequence.", 4096)]
    method: Annotated[
        Literal["auto", "exhaustive", "sampled", "optuna"],
        Sampling(
            "Look at every plan, or at a sample (`optuna` is the same); auto: at a sample "
            "where there are too many.",
            "auto",
        ),
    ]
    trials: Annotated[int, Sampling("Plans of a sample.", 300)]


class ServiceSettings(TypedDict, total=False):
    """What only the search for a way to serve has."""

    requests: Annotated[
        Any, Serving("The requests to serve, as for `chakra serve`.", None, metavar="FILE|PROCESS")
    ]
    engine: Annotated[
        str, Serving("The engine, as for `chakra serve`.", "vllm", metavar="NAME{OPTION=VALUE}")
    ]
    slo: Annotated[
        str | None, Serving("The service level in milliseconds.", None, metavar="ttft=MS,tpot=MS")
    ]
    attain: Annotated[float, Serving("Share of the requests within the level.", 0.99)]


class ScriptSettings(TypedDict, total=False):
    """What only the search for a script's flags has."""

    device: Annotated[
        str,
        Capturing(
            "The GPU that the script is told it has, as for `chakra capture`.", "", metavar="NAME"
        ),
    ]


class PlanSearchOptions(
    SearchSettings,
    ConfigurationOption,
    ObjectiveOption,
    ModelAxes,
    PlanAxes,
    PlanSettings,
    total=False,
):
    """Options of the search for a training plan."""


class ServiceSearchOptions(
    SearchSettings, ConfigurationOption, ModelAxes, ServiceAxes, ServiceSettings, total=False
):
    """Options of the search for a way to serve."""


class ScriptSearchOptions(SearchSettings, ObjectiveOption, ScriptSettings, total=False):
    """Options of the search for a script's flags; every other keyword is a place in its command."""


class SearchOptions(
    SearchSettings,
    ConfigurationOption,
    ObjectiveOption,
    PlanSettings,
    ModelAxes,
    PlanAxes,
    ServiceAxes,
    ServiceSettings,
    ScriptSettings,
    total=False,
):
    """The options of all three searches, of which one is chosen."""

    serve: Annotated[bool, Serving("Search for the cheapest way to serve requests.", False)]
    capture: Annotated[
        str | None,
        Capturing(
            "Instead of a model: a script with places for flags, as `python train.py --tp {tp}`. Every "
            "combination is captured.",
            None,
            metavar="COMMAND",
        ),
    ]


class ServeChosen(ServiceSearchOptions, total=False):
    """Options of `search` with `serve`."""

    serve: Required[Literal[True]]


AXES = tuple(p.name for struct in (ModelAxes, PlanAxes, ServiceAxes) for p in fields_of(struct))
"""The axes of all searches; the user may limit each to some values."""


def _checked_price(price: float | None) -> float | None:
    if price is not None and not 0 <= price < math.inf:
        raise ConfigError(f"--price-per-hour {price:g}: give what a device costs, 0 or more")
    return price


def _common(options: Mapping[str, Any]) -> dict[str, Any]:
    """What every search of the studies' room takes."""
    return {
        "fixed": {name: options[name] for name in AXES if len(options.get(name, ()))},
        "compute": options["compute"],
        "price_per_hour": _checked_price(options["price_per_hour"]),
        "runners": options["runners_up"],
        "progress": progress_of(options),  # type: ignore[arg-type]
    }


def _counts(gpus: int | Sequence[int] | str) -> list[int]:
    assert not isinstance(gpus, str), "text is parsed"
    return [gpus] if isinstance(gpus, int) else list(gpus)


@public(PlanSearchOptions)
def search_plan(
    model: Annotated[str, MODEL],
    gpus: Annotated[int | Sequence[int] | str, GPUS],
    machine: Annotated[str, MACHINE],
    **options: Unpack[PlanSearchOptions],
) -> FoundPlan:
    """Find the fastest plan (or the cheapest, or the thriftiest) that fits the devices' memory."""
    from chakrakit.commands.results import FoundPlan
    from chakrakit.exploration.search import TRAINING, write_configurations
    from chakrakit.exploration.search import search as search_plans
    from chakrakit.trace.storage import write
    from chakrakit.workloads.description import Step
    from chakrakit.workloads.generate import generate
    from chakrakit.workloads.models import model_named

    counts = _counts(gpus)
    step = Step(seq=options["seq"], global_batch=options["batch"] or max(counts, default=1))
    result, workload = search_plans(
        model_named(model),
        step,
        counts,
        machine,
        objective=options["objective"],
        method=options["method"],
        trials=options["trials"],
        **_common(options),
    )
    if options["output"] is not None:
        write(generate(workload), options["output"])
    if options["configurations"] is not None:
        made = [framework(workload) for framework in TRAINING.values()]
        result.configurations = write_configurations(made, Path(options["configurations"]))
    return FoundPlan(workload, result)


@public(ServiceSearchOptions)
def search_service(
    model: Annotated[str, MODEL],
    gpus: Annotated[int | Sequence[int] | str, GPUS],
    machine: Annotated[str, MACHINE],
    **options: Unpack[ServiceSearchOptions],
) -> FoundService:
    """Find the cheapest plan, pools and batch limits that serve a stream within a level."""
    from chakrakit.commands.results import FoundService
    from chakrakit.exploration.search import SERVING, search_serving_on, write_configurations
    from chakrakit.serving.results import ServiceLevel, write_run

    requests, slo, output = options["requests"], options["slo"], options["output"]
    if requests is None or slo is None:
        raise ConfigError("--serve needs --requests and --slo, such as --slo ttft=500,tpot=50")
    settings = {"engine": options["engine"], "attain": options["attain"], **_common(options)}
    result, serving = search_serving_on(
        model, _counts(gpus), words_of(machine), requests, slo, **settings
    )
    if output is not None:
        served = serving.served(ServiceLevel.parse(slo), record_steps=True)
        write_run(served, Path(output), serving.card())
    if options["configurations"] is not None:
        made = [c for engine in SERVING.values() for c in engine(result.best, model)]
        result.configurations = write_configurations(made, Path(options["configurations"]))
    return FoundService(serving, result)


@public(ScriptSearchOptions, others="axes")
def search_script(
    command: Annotated[str, Option("The script's command, with places for flags.")],
    gpus: Annotated[int | Sequence[int] | str, GPUS],
    machine: Annotated[str, MACHINE],
    **options: Any,
) -> FoundScript:
    """Find a script's best flags; `tp=[1, 2]` is what to put in the place `{tp}` of its command."""
    from chakrakit.commands.results import FoundScript
    from chakrakit.exploration.search import search_script as search_flags
    from chakrakit.trace.storage import write

    option_names = {p.name for p in fields_of(ScriptSearchOptions)}
    axes = {name: list(values) for name, values in options.items() if name not in option_names}
    settings = {n: v for n, v in _common(options).items() if n != "fixed"} | {"flags": axes}
    settings |= {name: options[name] for name in ("device", "objective")}
    result, traces = search_flags(command, _counts(gpus), machine, **settings)
    if options["output"] is not None:
        write(traces, options["output"])
    return FoundScript(traces, result)


@overload
def search(
    model: str, gpus: int | Sequence[int] | str, machine: str, **options: Unpack[PlanSearchOptions]
) -> FoundPlan: ...
@overload
def search(
    model: str, gpus: int | Sequence[int] | str, machine: str, **options: Unpack[ServeChosen]
) -> FoundService: ...
@overload
def search(
    model: None, gpus: int | Sequence[int] | str, machine: str, *, capture: str, **axes: Any
) -> FoundScript: ...
@public(SearchOptions, others="axes")
def search(
    model: Annotated[str | None, MODEL],
    gpus: Annotated[int | Sequence[int] | str, GPUS],
    machine: Annotated[str, MACHINE],
    **options: Any,
) -> FoundPlan | FoundService | FoundScript:
    """Find the fastest plan (or the cheapest, or the thriftiest) that fits the devices' memory.

    With `serve`, find the cheapest plan, pools and batch limits that serve a stream within a level;
    with `capture` and no model, a script's best flags: every further keyword is a place in its command.

    Examples
    --------
    >>> best = ck.search("gpt3-125m", 8, "dgx-h100", seq=512, tp=[1, 2], pp=[1], data=["ddp"])
    >>> best.result.best.gpus
    8

    """
    if (model is None) == (options["capture"] is None):
        raise ConfigError("give --model or --capture, and not both")
    settings = {**changed(SearchOptions, options), **_places(options)}
    if model is None:
        command = settings.pop("capture")
        _refuse(settings, PlanSettings, "a search with --model")
        _refuse(settings, ServiceSettings, "--serve")
        _refuse(settings, ConfigurationOption, "a search with --model")
        return search_script(command, gpus, machine, **settings)
    if options["serve"]:
        del settings["serve"]
        _refuse(settings, PlanSettings, "a search without --serve")
        _refuse(settings, ObjectiveOption, "a search without --serve, which finds the cheapest way")
        _refuse(settings, ScriptSettings, "--capture")
        return search_service(model, gpus, machine, **settings)
    _refuse(settings, ServiceSettings, "--serve")
    _refuse(settings, ServiceAxes, "--serve")
    _refuse(settings, ScriptSettings, "--capture")
    return search_plan(model, gpus, machine, **settings)


def _places(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keywords that are not options: places in a script's command."""
    options_of_all = {p.name for p in fields_of(SearchOptions)}
    return {name: value for name, value in options.items() if name not in options_of_all}


def _refuse(settings: Mapping[str, Any], struct: type, purpose: str) -> None:
    """Refuses options of another search, which would be dropped in silence."""
    for parameter in fields_of(struct):
        if parameter.name in settings:
            raise ConfigError(f"{parameter.flag} is for {purpose}")


def values_of(texts: Iterable[str]) -> dict[str, list[str]]:
    """`["tp=1,2"]` as values by name."""
    return {name: words_of(values) for name, values in pairs_of(texts).items()}


@command_of(search)
def command(
    *,
    model: Annotated[str | None, MODEL] = None,
    axes: Annotated[
        Sequence[str],
        Capturing("What to put in the place {NAME}.", flags="--axis", metavar="NAME=A,B,…"),
    ] = (),
    json: Json = False,
    **options: Any,
) -> None:
    """Find the fastest plan (or the cheapest, or the thriftiest) that fits the devices' memory.

    Every combination of tp, pp, cp, ep, micro-batch, data parallelism, recomputation and schedule is
    given a lower bound; the simulator decides between those whose bounds do not rule them out.

    \b
    chakra search --model llama-3.1-70b --gpus 256 --machine dgx-h100 -o best
    chakra search --serve --model llama-3.1-8b --gpus 8 --machine dgx-h100 \\
        --slo ttft=500,tpot=30 --requests poisson:rate=4,prompt=512,output=128
    chakra search --capture 'torchrun train.py --tp {tp}' --axis tp=1,2,4,8 \\
        --gpus 64 --machine dgx-h100
    """
    with progress("plans") as show:
        outcome: Any = search(model, progress=show, **options | values_of(axes))
    result = outcome.result
    if json:
        print_json(result)
    elif options["serve"]:
        print_served(result)
    elif options["capture"] is not None:
        print_script(result, options["output"], options["device"])
    else:
        print_plans(result, options["output"], options["compute"])
    if result.stopped:
        click.echo("stopped: the best of what had been looked at by then", err=True)
        sys.exit(130)


def print_plans(result: SearchResult, output: str | None, compute: str) -> None:
    """The best plan, the others, and why."""
    out = console()
    best = result.best
    within = ""
    if best.interval_ns is not None:
        low, high = (three_digits(bound / 1e6) for bound in best.interval_ns)
        within = f" ({low}–{high})"
    value = _value_text(result.objective, best.value)
    out.print(
        f"best: {f'{value}, ' if value else ''}{best.step_ns / 1e6:,.1f} ms{within} a step with "
        f"{best.spelled} on {_devices(best.gpus, result.machine)}"
    )
    out.print(f"  {best.why}")
    plans = [("best", best), *((str(i), r) for i, r in enumerate(result.runners_up, 2))]
    head = (
        "",
        "gpus",
        "dp",
        "tp",
        "pp",
        "cp",
        "ep",
        "micro",
        "data",
        "recompute",
        "schedule",
        "step ms",
        "MFU %",
        "GiB",
        *((result.objective,) if value else ()),
    )
    rows = [(name, *_plan_cells(plan, result.objective)) for name, plan in plans]
    alike = _alike(head, rows)
    kept = [i for i, column in enumerate(head) if column not in alike]
    print_table([head[i] for i in kept], [[row[i] for i in kept] for row in rows])
    if alike:
        out.print(f"alike in all: {', '.join(f'{name} {value}' for name, value in alike.items())}")
    out.print(f"MFU: {MFU}")
    for name, plan in plans[1:]:
        out.print(f"{name}: {plan.why}")
    out.print(
        f"{result.evaluated:,} plans simulated, {result.pruned:,} decided by their bounds, "
        f"{result.over_memory:,} of them by memory; {result.method}, by {result.objective}, on "
        f"{result.machine}"
    )
    if result.model:
        out.print(model_line(result.model))
    if output:
        out.print(f"again: chakra simulate {output} --machine {result.machine} --compute {compute}")
    for line in result.configurations:
        out.print(line)


def _devices(gpus: int, machine: str) -> str:
    """A machine, and how many of its devices a plan has where these are not all."""
    from chakrakit.machines import load_machine

    size = load_machine(machine).size
    return machine if gpus == size else f"{gpus} of the {size} devices of {machine}"


def _plan_cells(plan: PlanResult, objective: str) -> tuple[object, ...]:
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
        *([value] if (value := _value_text(objective, plan.value)) else []),
    )


_PLAN_COLUMNS = ("gpus", "dp", "tp", "pp", "cp", "ep", "micro", "data", "recompute", "schedule")


def _alike(head: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, object]:
    """What all of several plans have in common, by column: it need not stand in every row."""
    if len(rows) < 2:
        return {}
    columns = {name: {row[i] for row in rows} for i, name in enumerate(head)}
    return {name: columns[name].pop() for name in _PLAN_COLUMNS if len(columns[name]) == 1}


def _value_text(objective: str, value: float) -> str:
    """The price or the energy of a step; nothing where its time is what was asked for."""
    from chakrakit.results import energy_text, money_text

    if objective == "price":
        return money_text(value)
    return energy_text(value) if objective == "energy" else ""


_SERVED_HEAD = (
    "",
    "devices",
    "engines",
    "tokens",
    "requests",
    "within level",
    "TTFT ms",
    "TPOT ms",
    "tokens/s",
    "$/h",
)


def print_served(result: ServingSearchResult) -> None:
    """The best way, the others, and why."""
    from chakrakit.results import counted, money_text

    best = result.best
    plans = [("best", best), *((str(i), r) for i, r in enumerate(result.runners_up, 2))]
    console().print(
        f"best: {best.engines} on {counted(best.devices, 'device')} of {result.machine}: "
        f"{best.attained:.1%} of the requests within {result.level}"
        + (f", {money_text(best.price_per_hour)} an hour" if best.price_per_hour else "")
    )
    print_table(_SERVED_HEAD, [(name, *_served_cells(plan)) for name, plan in plans])
    lines = [
        *(f"not on {name}: {why}" for name, why in result.refused.items()),
        "TTFT and TPOT: the share of requests that --attain asks for is below",
        *(f"{name}: {plan.why}" for name, plan in plans),
        f"{result.served:,} ways served, {result.given_up:,} of them given up when they had missed "
        f"{result.level}; {result.over_memory:,} do not fit; on {result.machine}",
        *([model_line(result.model)] if result.model else []),
        f"again: {result.command}",
        *result.configurations,
    ]
    for line in lines:
        console().print(line)


def _served_cells(plan: ServingPlan) -> tuple[object, ...]:
    from chakrakit.results import milliseconds_text

    return (
        plan.devices,
        plan.engines,
        plan.batch_tokens,
        plan.batch_requests,
        f"{plan.attained:.1%}",
        milliseconds_text(plan.ttft_ms),
        "–" if plan.tpot_ms is None else milliseconds_text(plan.tpot_ms),
        f"{plan.output_tokens_per_s:,.0f}",
        f"{plan.price_per_hour:,.2f}" if plan.price_per_hour else "",
    )


def print_script(result: ScriptSearchResult, output: str | None, device: str) -> None:
    """The best flags, the others, why, and what was refused."""
    plans = [("best", result.best), *((str(i), r) for i, r in enumerate(result.runners_up, 2))]
    best = result.best
    within = ""
    if best.interval_ns is not None:
        within = " ({}–{})".format(*(three_digits(bound / 1e6) for bound in best.interval_ns))
    value = _value_text(result.objective, best.value)
    console().print(
        f"best: {f'{value}, ' if value else ''}{best.step_ns / 1e6:,.1f} ms{within} a step with "
        f"{best.spelled} on {result.machine}"
    )
    head = ("", "gpus", *result.best.flags, "step ms", "MFU %", "GiB")
    print_table(head, [(name, *_script_cells(plan)) for name, plan in plans])
    lines = [f"MFU: {MFU}", *(f"{name}: {plan.why}" for name, plan in plans)]
    for refusal in result.refused:
        flags = " ".join(f"{name}={value}" for name, value in refusal.flags.items())
        lines.append(f"refused: {refusal.gpus} gpus {flags}: {refusal.error}")
    lines.append(
        f"{result.evaluated:,} combinations simulated, {len(result.refused):,} refused; by "
        f"{result.objective}, on {result.machine}"
    )
    told = f" --device {device}" if device else ""
    lines.append(f"again: chakra capture --ranks {best.gpus}{told} -o w -- {best.command}")
    if output:
        lines.append(f"again: chakra simulate {output} --machine {result.machine}")
    for line in lines:
        console().print(line)


def _script_cells(plan: ScriptPlan) -> tuple[object, ...]:
    mfu = "" if plan.mfu is None else f"{100 * plan.mfu:.1f}"
    memory = f"{plan.memory_bytes / 2**30:.1f}"
    return (plan.gpus, *plan.flags.values(), f"{plan.step_ns / 1e6:,.1f}", mfu, memory)
