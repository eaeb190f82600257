"""`simulate`: a workload on a machine that need not exist, or several jobs on one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack, overload

import click

from chakrakit.commands.astra import (
    AstraRunOptions,
    AstraSettings,
    RunOptions,
    print_astra,
    simulate_as_astra,
)
from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import (
    Pairs,
    Path_,
    mapping_of,
    pairs_of,
    read_clock_texts,
    traces_of,
)
from chakrakit.commands.options import (
    Option,
    Positional,
    changed,
    fields_of,
    parameters_of,
    picked,
    public,
    settings_of,
)
from chakrakit.commands.output import (
    Json,
    console,
    print_json,
    print_recording,
    print_table,
    print_tables,
    progress,
)
from chakrakit.errors import ConfigError, DeadlockError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.machines.fabric import Machine
    from chakrakit.simulator.astra import AstraSimulation
    from chakrakit.simulator.engine import (
        CollectivePolicy,
        Custom,
        DispatchPolicy,
        SimulationOptions,
    )
    from chakrakit.simulator.results import (
        CollectiveSummary,
        HungSimulation,
        JobsSimulation,
        RankSummary,
        Simulation,
        SimulationSummary,
    )
    from chakrakit.trace.sets import TraceSet

Timing = partial(Option, group="How long things take")
Disturbing = partial(Option, group="What goes wrong")


def factors_of(texts: Iterable[str]) -> dict[int, float | str]:
    """`["2=1.5", "3=1.2@4"]` as factors by rank, with the step from which they hold."""
    try:
        return {int(rank): _factor(str(text)) for rank, text in pairs_of(texts).items()}
    except (ValueError, ConfigError):
        raise ValueError("write it as RANK=FACTOR or RANK=FACTOR@STEP") from None


def _factor(text: str) -> float | str:
    """A factor, which stays a text where it names a step."""
    onsets_of({0: text})
    return text if "@" in text else float(text)


def onsets_of(stragglers: Mapping[int, float | str]) -> tuple[dict[int, float], dict[int, int]]:
    """Factors by rank, and the first steps in which they hold: `{3: "1.2@4"}`."""
    factors: dict[int, float] = {}
    onsets: dict[int, int] = {}
    for rank, value in stragglers.items():
        factor, _, step = str(value).partition("@")
        try:
            factors[rank], onsets[rank] = float(factor), int(step or 0)
        except ValueError:
            raise ConfigError(
                f"straggler {rank}: {value!r} should be a factor, or FACTOR@STEP as in '1.2@4'"
            ) from None
    return factors, {rank: step for rank, step in onsets.items() if step}


class NativeSettings(TypedDict, total=False):
    """What only our own simulator has."""

    compute: Annotated[
        str,
        Timing(
            "How long operations take: as measured, by the roofline, or by a profile; auto: as measured, "
            "else by the machine's profile or the roofline.",
            "auto",
            metavar="auto|measured|roofline|PROFILE",
        ),
    ]
    communication: Annotated[
        Literal["simulated", "measured"],
        Timing(
            "Transfers by the machine's network, or as long as the trace says they took.",
            "simulated",
        ),
    ]
    network: Annotated[
        Literal["flow", "analytical"],
        Timing("Links shared max-min fairly, or transfers that never meet.", "flow"),
    ]
    algorithms: Annotated[
        Pairs,
        Timing(
            "Use this algorithm, as in all-reduce=ring; others are chosen. FILE has one of your own, for "
            "groups of as many members: MSCCL's XML, an execution plan of MSCCL++, or PREFIX@BYTES, traces "
            "of the messages that move so many bytes.",
            (),
            flags="--algorithm",
            metavar="COLLECTIVE=NAME|FILE",
            parse=pairs_of,
        ),
    ]
    network_model: Annotated[
        Path_ | None,
        Timing(
            "Collectives as measured: from `chakra calibrate --nccl-tests`.", None, metavar="FILE"
        ),
    ]
    share_compute: Annotated[bool, Timing("Concurrent kernels of a device share it.", False)]
    clock: Annotated[
        Pairs | float,
        Timing(
            "Lock the devices' clock, for all work or for that of a phase (forward, backward, optimizer, …).",
            (),
            metavar="MHZ|PHASE=MHZ",
            parse=read_clock_texts,
        ),
    ]
    power_cap: Annotated[
        float | None,
        Timing("Lower clocks until a device's mean power stays below this.", None, metavar="WATTS"),
    ]
    placement: Annotated[
        Path_ | None,
        Option(
            "The device of each rank, a JSON list; by default rank 0 is on device 0, and so on. For several "
            "jobs: nodes of their own (packed, the default), all nodes in turn (spread), or lists by job.",
            None,
            metavar="FILE|packed|spread",
        ),
    ]
    host: Annotated[
        bool,
        Option("Launch the kernels of captured programs from a host (the pass `launched`).", True),
    ]
    framework: Annotated[
        str,
        Option(
            "The framework whose casts, scales and unfused kernels are added to computed times: megatron, "
            "megatron-eager (experts launched by a host; megatron-layers, megatron-unfused: with CUDA graphs "
            "of all but the experts, or of unfused ones too), megatron-lm (of 2021, on A100), llm-foundry, "
            "torchtitan or torchtitan-rowwise.",
            "",
            metavar="NAME",
        ),
    ]
    jitter: Annotated[float, Disturbing("Standard deviation of durations, as a share.", 0.0)]
    seed: Annotated[int, Disturbing("Seed of the jitter.", 0)]
    stragglers: Annotated[
        Pairs,
        Disturbing(
            "A rank whose device takes FACTOR times as long, from a step on.",
            (),
            flags="--straggler",
            metavar="RANK=FACTOR[@STEP]",
            parse=factors_of,
        ),
    ]
    faults: Annotated[
        Iterable[str],
        Disturbing(
            "From a time on, `device:3@1e6=0.5`, `link:0-switch 0.0@0=0.1` or `store:disk@0=0.5`.",
            (),
            flags="--fault",
            metavar="KIND:TARGET@NS=FACTOR",
        ),
    ]
    mismatches: Annotated[
        Literal["refuse", "hang"],
        Disturbing(
            "Collectives whose calls differ, or are missing on a rank: an error at once, or a hang in them, "
            "as in a job.",
            "refuse",
        ),
    ]
    records: Annotated[
        Path_ | None,
        Disturbing(
            "Write what recorders would have written, also of a simulation that hangs: dumps of the flight "
            "recorder, lines of NCCL Inspector, telemetry.",
            None,
            metavar="DIR",
        ),
    ]
    assume_missing: Annotated[
        Literal["symmetric"] | None,
        Option("Assume that ranks nobody recorded arrive with the others of their group.", None),
    ]
    allow_empty: Annotated[
        bool, Option("Accept collectives of 0 bytes, which take only latency.", False)
    ]
    detail: Annotated[
        Literal["summary", "classes", "full"],
        Option("How much the Run says about what nodes waited for.", "classes", on_card=False),
    ]
    dispatch: Annotated[
        DispatchPolicy | None,
        Option(
            "Decides which row a device runs next (examples/dispatch_policy.py).",
            None,
            in_shell=False,
        ),
    ]
    collectives: Annotated[
        CollectivePolicy | None,
        Option("Decides which algorithm a collective uses.", None, in_shell=False),
    ]
    custom: Annotated[
        Custom | None,
        Option(
            "Gives collectives their steps, by collective, members and bytes.", None, in_shell=False
        ),
    ]


class NativeRunOptions(RunOptions, NativeSettings, total=False):
    """All options of a simulation on a machine."""


class SimulateOptions(NativeRunOptions, AstraSettings, total=False):
    """The options of both simulators, of which one is chosen."""

    astra: Annotated[
        Sequence[Path_] | None,
        Option(
            "Simulate as ASTRA-sim does, with its system JSON, network YAML and memory JSON.",
            None,
            metavar="SYSTEM NETWORK MEMORY",
            words=3,
        ),
    ]


@overload
def simulate(
    workload: Traces,
    machine: str | Machine | None = ...,
    *,
    astra: None = ...,
    **options: Unpack[NativeRunOptions],
) -> Simulation: ...
@overload
def simulate(
    workload: Traces, *, astra: Sequence[Path_], **options: Unpack[AstraRunOptions]
) -> AstraSimulation: ...
@public(SimulateOptions)
def simulate(
    workload: Annotated[
        Traces, Positional("A prefix of PREFIX.N.et files, or anything that holds traces.")
    ],
    machine: Annotated[
        str | Machine | None,
        Option(
            "On a machine: a preset (`dgx-h100:32` is 32 nodes; see `chakra machines`) or a file.",
            metavar="NAME_OR_FILE",
        ),
    ] = None,
    **options: Unpack[SimulateOptions],
) -> Simulation | AstraSimulation:
    """Simulate a workload on a machine that need not exist, or as ASTRA-sim does.

    No machine is needed where computation and communication are both `measured`.

    Returns
    -------
    A `Simulation`: `summary` is what the command prints, `run()` the traces with their times. With
    `astra`, an `AstraSimulation`: cycles of every rank, start and end of every node.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> done = ck.simulate(traces, "dgx-h100", compute="roofline")
    >>> len(done.summary.ranks), done.run().ranks
    (2, (0, 1))

    """
    if options["astra"] is not None:
        if machine is not None:
            raise ConfigError("say what to simulate on: --machine or --astra, not both")
        _refuse(NativeSettings, options, "--machine", "--astra")
        return simulate_as_astra(workload, options["astra"], **picked(simulate_as_astra, options))
    _refuse(AstraSettings, options, "--astra", "--machine")
    if machine is None and not options["compute"] == options["communication"] == "measured":
        raise ConfigError(
            "say what to simulate on: --machine NAME_OR_FILE, or --astra SYSTEM NETWORK MEMORY; only "
            "--compute measured with --communication measured needs neither"
        )
    return _simulate_on(workload, machine, options)


def _refuse(struct: type, options: Mapping[str, Any], purpose: str, alternative: str) -> None:
    """Refuses options of the other simulator, which would be dropped in silence."""
    for name in changed(struct, options):
        flag = next(p.flag for p in fields_of(struct) if p.name == name)
        raise ConfigError(f"{flag} is for {purpose}; leave it out with {alternative}")


def _simulate_on(
    workload: Traces, machine: str | Machine | None, options: SimulateOptions
) -> Simulation:
    from chakrakit.simulator.custom import OwnAlgorithms
    from chakrakit.simulator.results import read_placement
    from chakrakit.simulator.results import simulate as simulate_traces
    from chakrakit.trace.storage import write

    placement = options["placement"]
    places = read_placement(os.fspath(placement)) if placement else None
    engine_options = _engine_options(options, SimulateOptions, places)
    try:
        simulation = simulate_traces(
            traces_of(workload), machine, compute=options["compute"], options=engine_options
        )
    except DeadlockError as hang:
        _write_records(hang.simulation, options["records"])
        if options["output"] is not None:  # what had happened until then
            write(hang.simulation.run(), options["output"])
        raise
    _write_records(simulation, options["records"])
    if isinstance(engine_options.custom, OwnAlgorithms):
        engine_options.custom.check_used()
    if options["output"] is not None:
        write(simulation.run(options["detail"]), options["output"])
    return simulation


def _write_records(simulation: Simulation | HungSimulation, folder: Path_ | None) -> None:
    """Writes what recorders would have written, where a folder for it is given."""
    if folder is not None:
        from pathlib import Path

        from chakrakit.simulator.results import write_records

        write_records(simulation.run(), Path(folder))


@public(NativeRunOptions)
def simulate_jobs(
    workloads: Annotated[
        Mapping[str, Traces] | Sequence[Traces],
        Positional("The jobs by name, or a list of them: paths, TraceSets or Runs."),
    ],
    machine: Annotated[str | Machine, Option("A preset, a file, or a Machine.")],
    **options: Unpack[NativeRunOptions],
) -> JobsSimulation:
    """Simulate several jobs on one machine at the same time, as `chakra simulate A B …` does.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> done = ck.simulate_jobs({"a": traces, "b": traces}, "dgx-h100:2", compute="roofline")
    >>> [(job.name, job.slowdown) for job in done.summary.jobs]
    [('a', 1.0), ('b', 1.0)]

    """
    from pathlib import Path

    from chakrakit.machines import load_machine
    from chakrakit.simulator.results import place_jobs, read_job_placement
    from chakrakit.simulator.results import simulate_jobs as run_jobs
    from chakrakit.trace.storage import write_directories

    if options["clock"] or options["power_cap"] is not None:
        raise ConfigError(
            "--clock and --power-cap are for one workload; simulate the jobs by themselves"
        )
    jobs = _jobs_by_name(workloads)
    loaded = load_machine(machine) if isinstance(machine, str) else machine
    sizes = [len(traces) for traces in jobs.values()]
    placement = os.fspath(options["placement"] or "packed")
    if placement in ("packed", "spread"):
        places = place_jobs(sizes, loaded, spread=placement == "spread")
    else:
        places = read_job_placement(placement, list(jobs), sizes)
    engine_options = _engine_options(options, NativeRunOptions)
    simulation = run_jobs(
        jobs, loaded, placement=places, compute=options["compute"], options=engine_options
    )
    if options["output"] is not None:
        write_directories(simulation.runs(options["detail"]), Path(options["output"]))
    return simulation


def _jobs_by_name(workloads: Mapping[str, Traces] | Sequence[Traces]) -> dict[str, TraceSet]:
    """Jobs by name: of a path its last part, numbered where two are called the same."""
    from pathlib import Path

    from chakrakit.trace.sets import TraceSet

    if isinstance(workloads, Mapping):
        return {name: traces_of(workload) for name, workload in workloads.items()}
    jobs: dict[str, TraceSet] = {}
    for number, workload in enumerate(workloads):
        name = f"job {number}" if isinstance(workload, TraceSet) else Path(os.fspath(workload)).name
        same = sum(job == name or job.startswith(f"{name} ") for job in jobs)
        jobs[f"{name} {same + 1}" if same else name] = traces_of(workload)
    return jobs


def _engine_options(
    options: NativeRunOptions, struct: type, placement: tuple[int, ...] | None = None
) -> SimulationOptions:
    """The engine's own options: those of the same name as they are, the others as it takes them."""
    from chakrakit.machines.device import clocks_of
    from chakrakit.simulator.collectives import Algorithms
    from chakrakit.simulator.custom import split_algorithms
    from chakrakit.simulator.engine import Disturbance, SimulationOptions
    from chakrakit.simulator.results import read_network_model, split_fault

    by_collective, custom = split_algorithms(mapping_of(options["algorithms"]))
    stragglers, onsets = onsets_of(mapping_of(options["stragglers"]))
    faults = options["faults"]
    model = options["network_model"]
    converted: dict[str, Any] = {
        "algorithms": Algorithms(by_collective),
        "custom": options["custom"] or custom,
        "disturbance": Disturbance(
            options["jitter"],
            options["seed"],
            stragglers,
            tuple(map(split_fault, faults)),
            onsets=onsets,
        ),
        "assume_missing": options["assume_missing"] is not None,
        "clocks": clocks_of(options["clock"], options["power_cap"]),
        "measured_collectives": read_network_model(os.fspath(model)) if model else None,
        "placement": placement,
        "settings": settings_of(struct, options),
    }
    return SimulationOptions(**picked(SimulationOptions, options) | converted)


@command_of(simulate, without=["workload"])
def command(
    workloads: Annotated[
        tuple[str, ...],
        Positional(
            "A prefix of PREFIX.N.et files, or anything `chakra info` reads.",
            metavar="WORKLOAD…",
            words=-1,
        ),
    ],
    *,
    astra_log: Annotated[
        bool, Option("Print ASTRA-sim's own summary lines.", group="With --astra")
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Simulate WORKLOAD on any machine (--machine), or as ASTRA-sim does (--astra).

    Several are jobs that run on the machine at the same time: each gets a slowdown against running
    alone, and -o a folder with a Run for each.

    \b
    chakra simulate w --machine dgx-h100:8 -o run
    chakra simulate w --machine dgx-h100:8 --straggler 3=1.5
    chakra simulate job-a job-b --machine dgx-h100:16
    """
    if astra_log and options["astra"] is None:
        raise click.UsageError("--astra-log is for --astra; leave it out with --machine")
    _keep_workloads(workloads, options["output"])
    if len(workloads) > 1:
        return _simulate_several(workloads, json=json, **options)
    with progress("simulating"):
        simulation: Simulation | AstraSimulation = simulate(workloads[0], **options)
    if options["astra"] is not None:
        return print_astra(simulation, json=json, astra_log=astra_log)  # type: ignore[arg-type]
    if json:
        return print_json(simulation.facts())
    return _print(simulation)  # type: ignore[arg-type]


def _keep_workloads(workloads: Iterable[str], output: str | None) -> None:
    """Refuses to write the Run where a workload lies."""
    from pathlib import Path

    for workload in workloads:
        if output is not None and Path(output).resolve() == Path(workload).resolve():
            raise ConfigError(
                f"-o {output} would replace the workload; give the Run a name of its own"
            )


def _simulate_several(workloads: tuple[str, ...], *, json: bool, **options: Any) -> None:
    """Runs several jobs at once and prints how each fared."""
    from chakrakit.trace.memory import shortage_line

    if options["machine"] is None:
        raise click.UsageError("several jobs run on a machine: give --machine")
    _refuse(AstraSettings, options, "--astra", "--machine")
    names = [p.name for p in parameters_of(simulate_jobs) if p.name in options]
    with progress("simulating"):
        simulation = simulate_jobs(workloads, **{name: options[name] for name in names})
    if json:
        return print_json(simulation.summary)
    for j in simulation.summary.jobs:
        rank = f"rank {j.tightest_rank} of {j.name}"
        if verdict := shortage_line(j.fits, j.needs_bytes, j.has_bytes, rank):
            console().print(verdict)
    rows = [
        (
            j.name,
            j.ranks,
            f"{j.makespan_ns / 1e6:,.3f}{_between(j.interval_ns)}",
            f"{j.alone_ns / 1e6:,.3f}",
            f"{j.slowdown:.3f}",
        )
        for j in simulation.summary.jobs
    ]
    return print_table(("job", "ranks", "ms", "alone ms", "slowdown"), rows)


def _print(simulation: Simulation) -> None:
    from chakrakit.insight import network_tables, server_table, tier_table
    from chakrakit.trace.memory import shortage_line

    s, out = simulation.summary, console()
    print_recording(s.recording)
    rank = f"rank {s.tightest_rank}"
    if verdict := shortage_line(s.fits, s.needs_bytes, s.has_bytes, rank):
        out.print(verdict)
    within = f", as in {s.framework}" if s.framework else ""
    place = f" on {s.machine} ({s.network} network, {s.compute} compute: {s.rung}{within})"
    out.print(f"{_makespan(s)}{place if s.machine else ', all times as measured'}")
    if s.recording is not None and 0 < s.step_ns < s.makespan_ns:
        out.print(f"of these {s.makespan_ns / 1e6:,.3f} ms a step takes {s.step_ns / 1e6:,.3f} ms")
    for line in (*_figures(s), *_origins(s), *s.notes, _folded(s)):
        out.print(line)
    if s.ghosts:
        out.print(f"{len(s.ghosts)} ranks were not recorded and are assumed symmetric")
    _print_ranks(s.ranks)
    _print_collectives(s.collectives)
    tables = [*network_tables(s), tier_table(s.tiers), server_table(s.storage)]
    print_tables([], tables, max((len(table.rows) for table in tables), default=0))


def _figures(s: SimulationSummary) -> Iterator[str]:
    """How much is done and how well devices are used; what it takes."""
    from chakrakit.results import SITE, clocks_text, energy_text, mass_text, money_text

    done = [f"{s.tokens_per_s:,.0f} tokens per second"] if s.tokens_per_s is not None else []
    if s.mfu is not None and s.hfu is not None:
        done.append(
            f"MFU {100 * s.mfu:.1f} % without recomputation, HFU {100 * s.hfu:.1f} % with it"
        )
    taken = [
        ("energy", s.energy_joules, energy_text),
        (f"with {SITE}", s.facility_joules, energy_text),
        ("CO2", s.carbon_kg, mass_text),
        ("price", s.price, money_text),
    ]
    spent = [f"{name} {text(v)}" for name, v, text in taken if v is not None]
    if s.clock_mhz is not None:
        spent.append(f"clock {clocks_text(s.clock_mhz, s.highest_clock_mhz)}")
    for texts in (done, spent):
        if texts:
            yield ", ".join(texts)


def _folded(s: SimulationSummary) -> str:
    """How many ranks each simulated one stands for; why, where it is but one."""
    from chakrakit.results import counted

    each = f"{counted(len(s.ranks), 'rank')}, {s.fold.factor:g} for each simulated"
    return each if s.fold.factor > 1 or len(s.ranks) == 1 else f"{each}: {s.fold.why}"


def _makespan(s: SimulationSummary) -> str:
    """The time, and where it was not measured the interval that 90 of 100 measured ones should lie in."""
    return f"{s.makespan_ns / 1e6:,.3f} ms{_between(s.interval_ns)}"


def _between(interval_ns: tuple[float, float] | None) -> str:
    """` (38.8–86.2)` in ms; empty where there is no interval."""
    if interval_ns is None:
        return ""
    from chakrakit.results import three_digits

    low, high = (three_digits(bound / 1e6) for bound in interval_ns)
    return f" ({low}–{high})"


def _origins(s: SimulationSummary) -> Iterator[str]:
    """Where the times come from."""
    texts = [f"{100 * c.time_share:.0f} % {c.source}" for c in s.compute_sources]
    if texts and s.extrapolated_share:
        texts[-1] += f"; {100 * s.extrapolated_share:.1f} % outside of what was measured"
    compute = [f"compute time: {', '.join(texts)}"] if texts else []
    if told := compute + ["between nodes: modelled, not measured"] * s.modelled:
        yield "; ".join(told)


def _print_ranks(ranks: list[RankSummary]) -> None:
    from chakrakit.insight.rank import Table

    rows: list[tuple[str | int, ...]] = []
    for r in ranks:
        times = (r.finish_ns, r.compute_ns, r.exposed_comm_ns, r.idle_ns)
        texts = (*(f"{t / 1e6:,.3f}" for t in times), f"{r.peak_bytes / 2**30:,.3f}")
        rows.append((r.rank, *texts))
    head = ("rank", "finish ms", "compute ms", "exposed ms", "idle ms", "peak GiB")
    table = Table.of("", head, rows).folded()
    print_table(head, table.rows[:_ROWS])
    _print_more(len(table.rows), "kinds of ranks")


_ROWS = 4
"""Rows of a table, so that both fit one screen of 24 lines with what stands above them."""


def _print_more(rows: int, what: str) -> None:
    if rows > _ROWS:
        console().print(f"… and {rows - _ROWS:,} more {what}; --json has all")


def _print_collectives(collectives: list[CollectiveSummary]) -> None:
    rows = []
    for c in sorted(collectives, key=lambda c: -c.count * c.members * c.mean_ns)[:_ROWS]:
        times = (f"{c.mean_ns / 1e3:,.2f}", f"{c.wait_ns / 1e3:,.2f}", f"{c.gb_per_s:,.1f}")
        head = (c.collective, c.algorithm, c.members, f"{c.size / 2**20:,.3f}", f"{c.count:,}")
        ideal = "–" if c.ideal_share is None else f"{100 * c.ideal_share:.0f} %"
        rows.append((*head, *times, ideal))
    heads = ("collective", "algorithm", "of", "MiB", "count", "µs", "waited µs", "GB/s", "ideal")
    if rows:
        print_table(heads, rows)
        _print_more(len(collectives), "kinds of collectives, which take less")
