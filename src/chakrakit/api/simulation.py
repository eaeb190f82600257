"""Traces run on machines that need not exist."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Literal, overload

from chakrakit.api.astra import ASTRA_OPTIONS, simulate_as_astra
from chakrakit.api.inputs import Path_, Traces, traces_of
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine
from chakrakit.simulator.astra import AstraSimulation
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import Disturbance, SimulationOptions
from chakrakit.simulator.jobs import JobsSimulation, place_jobs, read_job_placement
from chakrakit.simulator.jobs import simulate_jobs as run_jobs
from chakrakit.simulator.results import (
    Simulation,
    read_network_model,
    read_placement,
    split_fault,
    split_pair,
)
from chakrakit.simulator.results import simulate as simulate_traces
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import write, write_directories

Pairs = Mapping[Any, Any] | Iterable[str]
"""`{"all-reduce": "ring"}`, or `["all-reduce=ring"]` as on the command line."""


@overload
def simulate(
    workload: Traces, machine: str | Machine | None = ..., *, astra: None = ..., **more: Any
) -> Simulation: ...
@overload
def simulate(workload: Traces, *, astra: Sequence[Path_], **more: Any) -> AstraSimulation: ...
def simulate(
    workload: Traces,
    machine: str | Machine | None = None,
    *,
    astra: Sequence[Path_] | None = None,
    compute: str = "auto",
    communication: Literal["simulated", "measured"] = "simulated",
    network: Literal["flow", "analytical"] = "flow",
    algorithms: Pairs = (),
    network_model: Path_ | None = None,
    placement: Path_ | None = None,
    share_compute: bool = False,
    jitter: float = 0.0,
    stragglers: Pairs = (),
    faults: Iterable[str] = (),
    seed: int = 0,
    assume_missing: Literal["symmetric"] | None = None,
    allow_empty: bool = False,
    fold: bool = True,
    output: Path_ | None = None,
    detail: Literal["summary", "classes", "full"] = "classes",
    **more: Any,
) -> Simulation | AstraSimulation:
    """Simulate a workload on a machine that need not exist, or as ASTRA-sim does.

    Parameters
    ----------
    workload
        A path, a TraceSet or a Run.
    machine
        A preset (`dgx-h100:32` is 32 nodes), a file, or a Machine. Not needed where computation
        and communication are both `measured`.
    astra
        Instead of a machine: ASTRA-sim's system JSON, network YAML and memory JSON. Besides `fold` and
        `output` it takes ASTRA-sim's own options: `groups`, `backend` (`unaware` or `aware`), `queues`,
        `injection_scale`, `rendezvous` and `lenient`.
    compute
        How long operations take: `auto`, `measured`, `roofline`, or a profile.
    communication
        Transfers by the machine's network, or as long as the trace says they took (`measured`).
    network
        Links shared max-min fairly (`flow`), or transfers that never meet (`analytical`).
    algorithms
        Algorithms of collectives, `{"all-reduce": "ring"}`; others are chosen.
    network_model, placement
        Files: collectives as measured, and the device of each rank.
    share_compute
        Concurrent kernels of a device share it.
    jitter, stragglers, faults, seed
        What goes wrong: the standard deviation of durations as a share, slow ranks as `{rank: factor}`,
        faults as `KIND:TARGET@NS=FACTOR`, and the seed of the jitter.
    assume_missing
        `symmetric`: ranks that nobody recorded arrive with the others of their group.
    allow_empty
        Accept collectives of 0 bytes, which take only latency.
    fold
        Simulate ranks that behave alike once; the result is the same.
    output, detail
        Where to write the Run, and how much it says about what nodes waited for.
    more
        Further fields of `SimulationOptions`, or options of ASTRA-sim.

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
    settings: dict[str, Any] = {
        "network": network,
        "communication": communication,
        "algorithms": algorithms,
        "network_model": network_model,
        "share_compute": share_compute,
        "jitter": jitter,
        "stragglers": stragglers,
        "faults": faults,
        "seed": seed,
        "assume_missing": assume_missing,
        "allow_empty": allow_empty,
    }
    if astra is not None:
        others = {"machine": machine, "compute": compute, "placement": placement, "detail": detail}
        _refuse_changed(settings | others)
        return simulate_as_astra(workload, astra, output, fold=fold, **more)
    _refuse_astra_options(more)
    places = read_placement(os.fspath(placement)) if placement else None
    options = _options(**settings, fold=fold, placement=places, **more)
    done = simulate_traces(traces_of(workload), machine, compute=compute, options=options)
    if output is not None:
        write(done.run(detail), output)
    return done


def _refuse_changed(settings: dict[str, Any]) -> None:
    """Options of the other simulator would be dropped in silence."""
    defaults = signature(simulate).parameters
    for name, value in settings.items():
        if value != defaults[name].default:
            raise ConfigError(f"{name} is not for astra; leave it out, or give a machine instead")


def _refuse_astra_options(given: Iterable[str]) -> None:
    for name in given:
        if name in ASTRA_OPTIONS:
            raise ConfigError(f"{name} is for astra: give it with ASTRA-sim's three files")


def simulate_jobs(
    workloads: Mapping[str, Traces] | Sequence[Traces],
    machine: str | Machine,
    *,
    placement: Path_ = "packed",
    compute: str = "auto",
    output: Path_ | None = None,
    detail: Literal["summary", "classes", "full"] = "classes",
    **settings: Any,
) -> JobsSimulation:
    """Simulate several jobs on one machine at the same time, as `chakra simulate A B …` does.

    Parameters
    ----------
    workloads
        The jobs by name, or a list of them: paths, TraceSets or Runs.
    machine
        As for `simulate`.
    placement
        `packed`: each job on nodes of its own while there are enough; `spread`: over all nodes in turn;
        or a JSON file with the device of each rank by job.
    compute, detail, settings
        As for `simulate`.
    output
        A folder that gets a Run for each job.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> done = ck.simulate_jobs({"a": traces, "b": traces}, "dgx-h100:2", compute="roofline")
    >>> [(job.name, job.slowdown) for job in done.summary.jobs]
    [('a', 1.0), ('b', 1.0)]

    """
    jobs = _named(workloads)
    made = load_machine(machine) if isinstance(machine, str) else machine
    sizes = [len(traces) for traces in jobs.values()]
    chosen = os.fspath(placement) if placement else "packed"
    if chosen in ("packed", "spread"):
        places = place_jobs(sizes, made, spread=chosen == "spread")
    else:
        places = read_job_placement(chosen, list(jobs), sizes)
    done = run_jobs(jobs, made, placement=places, compute=compute, options=_options(**settings))
    if output is not None:
        write_directories(done.runs(detail), Path(output))
    return done


def _named(workloads: Mapping[str, Traces] | Sequence[Traces]) -> dict[str, TraceSet]:
    """Jobs by name; of those given by path, the last part of it, numbered where two are called the same."""
    if isinstance(workloads, Mapping):
        return {name: traces_of(given) for name, given in workloads.items()}
    jobs: dict[str, TraceSet] = {}
    for number, given in enumerate(workloads):
        name = f"job {number}" if isinstance(given, TraceSet) else Path(os.fspath(given)).name
        same = sum(other == name or other.startswith(f"{name} ") for other in jobs)
        jobs[f"{name} {same + 1}" if same else name] = traces_of(given)
    return jobs


def _options(
    *,
    algorithms: Pairs = (),
    network_model: Path_ | None = None,
    jitter: float = 0.0,
    stragglers: Pairs = (),
    faults: Iterable[str] = (),
    seed: int = 0,
    assume_missing: Literal["symmetric"] | None = None,
    **more: Any,
) -> SimulationOptions:
    """Words of the command line as options of the simulator; `more` is called there as it is here."""
    slow = {int(r): float(f) for r, f in _pairs(stragglers, "--straggler", number=True).items()}
    return SimulationOptions(
        algorithms=Algorithms(_pairs(algorithms, "--algorithm")),
        disturbance=Disturbance(jitter, seed, slow, tuple(split_fault(t) for t in faults)),
        assume_missing=assume_missing is not None,
        measured_collectives=read_network_model(os.fspath(network_model))
        if network_model
        else None,
        **more,
    )


def _pairs(given: Pairs, flag: str, *, number: bool = False) -> dict[Any, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    return dict(split_pair(text, flag, number=number) for text in given)
