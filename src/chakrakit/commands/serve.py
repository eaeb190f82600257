"""`serve`: requests in, tokens out, on a machine that need not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Pairs, Path_, read_clock_texts
from chakrakit.commands.options import Option, public, settings_of
from chakrakit.commands.output import Json, console, model_line, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.machines.fabric import Machine
    from chakrakit.serving import Codec, EngineOptions, EngineSpec, RankFailure, Service
    from chakrakit.serving.requests import RequestStream, Source
    from chakrakit.serving.results import ServeResult, TenantFigures
    from chakrakit.workloads.description import Model

LaidOut = partial(Option, group="Engines")
Timed = partial(Option, group="How long steps take")
Arriving = partial(Option, group="Requests")


class ServeOptions(TypedDict, total=False):
    """Options of `serve`."""

    output: Annotated[
        Path_ | None,
        Option(
            "Write a Run with requests.parquet.",
            None,
            flags="-o --output",
            metavar="RUN",
            on_card=False,
        ),
    ]
    slo: Annotated[
        str | None,
        Option(
            "Service level in milliseconds; goodput counts the requests within it.",
            None,
            metavar="ttft=MS,tpot=MS",
        ),
    ]
    expand: Annotated[
        str | None,
        Option(
            "With -o, write these seconds, or this step, as operators.",
            None,
            metavar="FROM:TO|step:N",
        ),
    ]
    tp: Annotated[int, LaidOut("Tensor-parallel ranks of an engine.", 1)]
    pp: Annotated[int, LaidOut("Pipeline stages of an engine.", 1)]
    dp: Annotated[int, LaidOut("Data-parallel attention ranks of an engine.", 1)]
    ep: Annotated[int, LaidOut("Expert-parallel ranks of an engine, among those of --dp.", 1)]
    replicas: Annotated[int, LaidOut("Engines behind the router.", 1)]
    prefill: Annotated[int, LaidOut("Engines that only process prompts; needs --decode.", 0)]
    decode: Annotated[int, LaidOut("Engines that only generate outputs; needs --prefill.", 0)]
    prefill_tp: Annotated[int, LaidOut("Tensor-parallel ranks of an engine for prompts.", 0)]
    decode_tp: Annotated[int, LaidOut("Tensor-parallel ranks of an engine for outputs.", 0)]
    router: Annotated[
        Literal["turn", "least", "prefix"] | None,
        LaidOut(
            "Engines in turn (unless given), the least loaded, or the one that has the longest prefix in its "
            "cache.",
            None,
        ),
    ]
    policy: Annotated[
        Any,
        LaidOut(
            "A class with scheduling decisions of your own; see docs/serving.md. In Python an object.",
            None,
            metavar="FILE.py:CLASS",
        ),
    ]
    cluster: Annotated[
        Path_ | None,
        LaidOut(
            "A YAML file of unlike engines or a service, with codecs, links that change and failures, in "
            "place of a model and a machine.",
            None,
            metavar="FILE",
        ),
    ]
    engines: Annotated[
        Sequence[EngineSpec],
        LaidOut(
            "Unlike engines behind one router, in place of a model and a machine.",
            (),
            in_shell=False,
            on_card=False,
        ),
    ]
    service: Annotated[
        Service | None,
        LaidOut(
            "Any service with a function for its step times, in place of a model and a machine.",
            None,
            in_shell=False,
            on_card=False,
        ),
    ]
    codecs: Annotated[
        Sequence[Codec],
        LaidOut(
            "Ways to encode a cache that moves; a policy chooses.",
            (),
            in_shell=False,
            on_card=False,
        ),
    ]
    link_schedule: Annotated[
        Sequence[tuple[float, float]],
        LaidOut("From a second on, moves have a factor of their bandwidth.", (), in_shell=False),
    ]
    store_schedule: Annotated[
        Sequence[tuple[float, float]],
        LaidOut("The same for the store of cached content that engines share.", (), in_shell=False),
    ]
    rank_faults: Annotated[
        Sequence[RankFailure],
        LaidOut(
            "Ranks of an expert-parallel engine that fail alone.", (), in_shell=False, on_card=False
        ),
    ]
    faults: Annotated[
        Sequence[tuple[float, int, float]],
        LaidOut("From a second on, an engine is down for some seconds.", (), in_shell=False),
    ]
    kv_blocks: Annotated[
        int | None, LaidOut("Blocks of the cache, instead of what memory leaves.", None)
    ]
    layers: Annotated[
        Path_ | None,
        Timed("Measured layer times, a folder or one of its tables.", None, metavar="FILE"),
    ]
    compute: Annotated[
        str,
        Timed(
            "auto (constants fitted to the engine, else the device's profile), roofline, data-sheet, or a "
            "profile.",
            "auto",
        ),
    ]
    clock: Annotated[
        Pairs | float,
        Timed(
            "Lock the devices' clock; by phase (prefill, decode) where these have engines of their own.",
            (),
            metavar="MHZ|PHASE=MHZ",
            parse=read_clock_texts,
        ),
    ]
    power_cap: Annotated[
        float | None,
        Timed("Lower clocks until devices at work draw less than this.", None, metavar="WATTS"),
    ]
    dtype: Annotated[str, Timed("Element type: bf16, fp16 or fp32.", "bf16")]
    quantization: Annotated[
        str, Timed("fp8: weights and matmuls of one byte; fp4: weights of four bits.", "")
    ]
    seed: Annotated[int | None, Arriving("Seed of a process; wins over the one it names.", None)]
    first: Annotated[int | None, Arriving("Only the first N requests.", None, metavar="N")]
    rate_scale: Annotated[float, Arriving("Let requests arrive this many times as fast.", 1.0)]
    prompt_scale: Annotated[float, Arriving("Make prompts this many times as long.", 1.0)]
    output_scale: Annotated[float, Arriving("Make outputs this many times as long.", 1.0)]
    spread: Annotated[float, Arriving("Move arrivals later by up to so many seconds.", 0.0)]


@public(ServeOptions)
def serve(
    model: Annotated[
        str | Model | None,
        Option("A model's name, or a config.json; in Python also a description.", metavar="M"),
    ] = None,
    machine: Annotated[
        str | Machine | None, Option("A preset such as dgx-h100, or a file.", metavar="X")
    ] = None,
    requests: Annotated[
        str | RequestStream | Source | None,
        Option(
            "A file, or 'poisson{rate=4,prompt=512,output=128}'; also gamma, bursts, clients, closed, "
            "diurnal, regimes, rates, agents; or a source of your own, FILE.py:CLASS.",
            metavar="FILE|PROCESS",
        ),
    ] = None,
    engine: Annotated[
        str | EngineOptions | None,
        Option(
            "vllm (unless given), sglang, trtllm or transformers, with options as that engine names them.",
            metavar="NAME{OPTION=VALUE}",
        ),
    ] = None,
    **options: Unpack[ServeOptions],
) -> ServeResult:
    """Serve a stream of requests with a model on a machine that need not exist.

    Returns
    -------
    ServeResult
        Figures over requests, engines, the cache, energy and price.

    Examples
    --------
    >>> import chakrakit as ck
    >>> done = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=4,n=20,prompt=512,output=16}")
    >>> done.finished
    20

    """
    from chakrakit.serving import serve as serve_stream
    from chakrakit.serving.results import with_intervals

    asked = settings_of(ServeOptions, options)
    result = serve_stream(model, machine, requests, engine, card_settings=asked, **options)
    if machine is None:
        return result  # nobody has measured such a cluster
    place = machine if isinstance(machine, str) else machine.name
    name = "vllm" if engine is None else engine if isinstance(engine, str) else engine.name
    return with_intervals(result, place, name)


@command_of(serve)
def command(*, json: Json = False, **options: Any) -> None:
    """Serve a stream of requests with a model under a plan on a machine.

    \b
    chakra serve --model llama-3.1-8b --machine dgx-h100 --requests poisson:rate=4
    chakra serve --model llama-3.1-8b --machine dgx-h100 --tp 8 --requests log.csv
    chakra serve --cluster engines.yaml --requests log.csv --slo ttft=500 -o run
    """
    result = serve(**options)
    print_json(result) if json else _print(result)
    if result.requests and not result.finished:
        raise ConfigError(
            "no request was finished: look at the policy, the cache's size and the notes above"
        )


def _intervals(result: ServeResult) -> Iterator[str]:
    """`time to first token 35 (28–61) ms`, and the same of the 99th percentile."""
    from chakrakit.results import three_digits

    names = {"ttft_ms": "time to first token", "tpot_ms": "time per output token"}
    for field, name in names.items():
        bounds, spread = result.intervals.get(field, {}), getattr(result, field)
        if bounds:
            mean, last = (
                f"{three_digits(getattr(spread, k))} "
                f"({three_digits(bounds[k][0])}–{three_digits(bounds[k][1])})"
                for k in ("mean", "p99")
            )
            yield f"{name} {mean} ms, p99 {last} ms"


def _tasks(result: ServeResult) -> list[str]:
    """Groups of requests, caches that moved and deadlines, where there are any."""
    lines = []
    if result.group_ms is not None:
        mean, tail = result.group_ms.mean / 1e3, result.group_ms.p99 / 1e3
        lines.append(
            f"{result.groups:,} tasks of several requests: {mean:,.2f} s each, p99 {tail:,.2f} s"
        )
    if result.move_ms is not None:
        lines.append(f"{result.moves:,} caches moved in {result.move_ms.mean:,.2f} ms each")
    if result.deadlines_met is not None:
        lines.append(f"{result.deadlines_met:.1%} of deadlines met")
    return lines


def _by_pool(result: ServeResult) -> None:
    """A line for each kind of engines, where there are several or where some were off."""
    if len(result.pools) == 1 and result.pools[0].on > 0.999:
        return
    rows = [
        (
            f"{pool.engines} {pool.role}",
            f"{pool.devices} × {pool.device}",
            f"{pool.on:.1%}",
            f"{pool.busy:.1%}",
            f"{pool.mean_batch:,.1f}",
            f"{pool.kv.peak_tokens:,} of {pool.kv.capacity_tokens:,}",
        )
        for pool in result.pools
    ]
    print_table(("engines", "devices", "on", "busy", "requests a step", "most tokens held"), rows)


def _by_tenant(figures: Mapping[str, TenantFigures], kind: str) -> None:
    """A line for each tenant or priority, where there are several."""
    from chakrakit.results import spread_cells

    rows = [
        (
            name,
            f"{one.finished:,} of {one.requests:,}",
            *(spread_cells(one.ttft_ms, one.finished > 0)[i] for i in (0, -1)),
            spread_cells(one.e2e_ms, one.finished > 0)[0],
            f"{one.output_tokens_per_s:,.0f}",
            f"{one.attained:.1%}",
        )
        for name, one in figures.items()
    ]
    if rows:
        names = ("requests", "ttft ms", "p99", "e2e ms", "tokens/s", "in time")
        print_table((kind, *names), rows)


def _spent(result: ServeResult) -> list[str]:
    """Energy and price, where the devices say what they draw and cost."""
    from chakrakit.results import SITE, clocks_text, energy_text, money_text

    lines = []
    if result.energy_joules is not None:
        clocks = result.clock_mhz and clocks_text(result.clock_mhz, result.highest_clock_mhz)
        at = f" at {clocks}" if clocks else ""
        each = f"{result.joules_per_token:,.2f} J per token"
        lines.append(f"{energy_text(result.energy_joules)}, {each}{at}")
        if result.facility_joules is not None:
            lines[-1] += f"; {energy_text(result.facility_joules)} with {SITE}"
    if result.price is not None and result.price_per_million_tokens is not None:
        each = money_text(result.price_per_million_tokens)
        lines.append(f"{money_text(result.price)}, {each} per million output tokens")
    elif result.price is None:
        lines.append("price: not known, a device states no `price_per_hour`; a machine file can")
    return lines


def _queue_name(frontend_ms: float) -> str:
    """The name of the time in the queue, with what of it is no queue."""
    return f"in the queue, front end {frontend_ms:,.1f}" if frontend_ms else "in the queue"


def _print(result: ServeResult) -> None:
    from chakrakit.results import spread_cells

    names = {
        "time to first token": result.ttft_ms,
        "time per output token": result.tpot_ms,
        "between tokens": result.itl_ms,
        "end to end": result.e2e_ms,
        _queue_name(result.frontend_ms): result.queue_ms,
    }
    rows = [(name, *spread_cells(s, result.finished > 0)) for name, s in names.items()]
    console().print(
        f"{result.finished:,} of {result.requests:,} requests in {result.duration_s:,.1f} s: "
        f"{result.output_tokens_per_s:,.0f} output tokens/s, goodput {result.goodput:,.2f} requests/s"
    )
    print_table(("ms", "mean", "p50", "p90", "p95", "p99"), rows)
    if result.intervals:
        console().print(f"90 of 100 measured runs: {', '.join(_intervals(result))}")
    _by_tenant(result.tenants, "tenant")
    _by_tenant(result.priorities, "priority")
    _by_pool(result)
    lines = [
        f"{result.steps:,} steps of {result.mean_batch:,.1f} requests; {result.preemptions:,} preemptions; "
        f"{result.cache_hit_rate:.1%} of prompt tokens cached",
        *_tasks(result),
        *([model_line(result.model)] if result.model else []),
        f"cache: {result.kv.arithmetic}; {result.kv.peak_tokens:,} tokens held at the most",
        f"step times: {result.step_times}",
        *_spent(result),
        *(f"note: {note}" for note in result.notes),
    ]
    for line in lines:
        console().print(line)
