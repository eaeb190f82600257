"""Traces run on machines, simulated or real, and machines measured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from chakrakit.api.inputs import Traces, traces_of
from chakrakit.errors import ConfigError
from chakrakit.machines.calibrate import (
    CalibrationReport,
    calibrate_collectives,
    calibrate_network,
    calibrate_profile,
)
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import MachinesReport, load_machine, overview
from chakrakit.replayer.plan import ReplayOptions
from chakrakit.replayer.run import ReplayReport
from chakrakit.replayer.run import export as export_replay
from chakrakit.replayer.run import replay as replay_trace
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


def simulate(
    workload: Traces,
    machine: str | Machine | None = None,
    *,
    compute: str = "auto",
    communication: Literal["simulated", "measured"] = "simulated",
    network: Literal["flow", "analytical"] = "flow",
    algorithms: Pairs = (),
    network_model: str | os.PathLike[str] | None = None,
    placement: str | os.PathLike[str] | None = None,
    share_compute: bool = False,
    jitter: float = 0.0,
    stragglers: Pairs = (),
    faults: Iterable[str] = (),
    seed: int = 0,
    assume_missing: Literal["symmetric"] | None = None,
    allow_empty: bool = False,
    fold: bool = True,
    output: str | os.PathLike[str] | None = None,
    detail: Literal["summary", "classes", "full"] = "classes",
    **more: Any,
) -> Simulation:
    """Simulate a workload on a machine that need not exist.

    Parameters
    ----------
    workload
        A path, a TraceSet or a Run.
    machine
        A preset (`dgx-h100:32` is 32 nodes), a file, or a Machine. Not needed where computation
        and communication are both `measured`.
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
        What goes wrong: a standard deviation, `{rank: factor}`, `KIND:TARGET@NS=FACTOR`.
    assume_missing, allow_empty, fold
        Ranks nobody recorded arrive with their group; collectives of 0 bytes pass; ranks alike run once.
    output, detail
        Where to write the Run, and how much it says about what nodes waited for.
    more
        Further fields of `SimulationOptions`.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> done = ck.simulate(traces, "dgx-h100", compute="roofline")
    >>> len(done.summary.ranks), done.run().ranks
    (2, (0, 1))

    """
    options = _options(
        network=network,
        communication=communication,
        algorithms=algorithms,
        network_model=network_model,
        share_compute=share_compute,
        jitter=jitter,
        stragglers=stragglers,
        faults=faults,
        seed=seed,
        assume_missing=assume_missing,
        allow_empty=allow_empty,
        fold=fold,
        placement=read_placement(os.fspath(placement)) if placement else None,
        **more,
    )
    done = simulate_traces(traces_of(workload), machine, compute=compute, options=options)
    if output is not None:
        write(done.run(detail), output)
    return done


def simulate_jobs(
    workloads: Mapping[str, Traces] | Sequence[Traces],
    machine: str | Machine,
    *,
    placement: str | os.PathLike[str] = "packed",
    compute: str = "auto",
    output: str | os.PathLike[str] | None = None,
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
    network: Literal["flow", "analytical"] = "flow",
    algorithms: Pairs = (),
    network_model: str | os.PathLike[str] | None = None,
    share_compute: bool = False,
    jitter: float = 0.0,
    stragglers: Pairs = (),
    faults: Iterable[str] = (),
    seed: int = 0,
    assume_missing: Literal["symmetric"] | None = None,
    allow_empty: bool = False,
    fold: bool = True,
    **more: Any,
) -> SimulationOptions:
    """Words of the command line as options of the simulator."""
    slow = {int(r): float(f) for r, f in _pairs(stragglers, "--straggler", number=True).items()}
    return SimulationOptions(
        network=network,
        fold=fold,
        algorithms=Algorithms(_pairs(algorithms, "--algorithm")),
        disturbance=Disturbance(jitter, seed, slow, tuple(split_fault(t) for t in faults)),
        assume_missing=assume_missing is not None,
        allow_empty=allow_empty,
        share_compute=share_compute,
        measured_collectives=read_network_model(os.fspath(network_model))
        if network_model
        else None,
        **more,
    )


def _pairs(given: Pairs, flag: str, *, number: bool = False) -> dict[Any, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    return dict(split_pair(text, flag, number=number) for text in given)


def replay(
    trace: str | os.PathLike[str],
    *,
    mode: Literal["full", "compute", "comm", "emulate"] = "full",
    device: Literal["cpu", "cuda"] = "cpu",
    nproc: int = 0,
    iterations: int = 10,
    warmup: int = 3,
    step: int = -1,
    gaps: bool = False,
    shrink: Literal["keep", "scale"] = "keep",
    backend: str = "",
    timeout: float = 300.0,
    export: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
) -> ReplayReport | None:
    """Run a trace on real hardware, or only its communication.

    Parameters
    ----------
    trace
        A linked run, files of PyTorch's profiler, or an exported folder that was run.
    mode
        All operators, no communication, communication alone, or communication with waits for compute.
    device, backend
        `cpu` or `cuda`, and `gloo` or `nccl` (by default what suits the device).
    nproc
        Ranks; by default as many as were recorded.
    iterations, warmup
        How often the step is timed, and how often it runs before.
    step, gaps, shrink
        Which recorded step; whether to keep the host's own time; what is left in a smaller group.
    timeout
        Seconds to wait for a rank.
    export
        Write plans and runner to this folder instead of running them; `python FOLDER/run.py` runs them
        with PyTorch alone.
    output
        Where to write the replayed run.

    Returns
    -------
    The report; None with `export`, and on all but the first rank under torchrun.

    Examples
    --------
    >>> ck.replay("run", device="cuda").step_ns.median  # doctest: +SKIP

    """
    options = ReplayOptions(mode, device, nproc, gaps, shrink, step, backend)
    if export is not None:
        export_replay(os.fspath(trace), Path(export), options)
        return None
    return replay_trace(
        os.fspath(trace),
        options,
        iterations=iterations,
        warmup=warmup,
        timeout_s=timeout,
        output=None if output is None else Path(output),
    )


def calibrate(
    *sources: str | os.PathLike[str],
    output: str | os.PathLike[str],
    nccl_tests: bool = False,
    collectives: bool = False,
    machine: Machine | str | None = None,
) -> CalibrationReport:
    """Make a compute profile, a network model or library constants from measurements.

    Parameters
    ----------
    sources
        Microbenchmark files and linked traces; logs of nccl-tests; or tables of measured collectives
        (CSV or Parquet with the columns collective, members, bytes and time_us).
    output
        Where the profile, model or constants go.
    nccl_tests
        The sources are logs of nccl-tests: make a network model, or with `machine` library constants.
    collectives
        The sources are tables: make library constants for `machine`.
    machine
        The machine on which the collectives ran. The constants go under `library` in its file.

    Examples
    --------
    >>> ck.calibrate("run", output="profile.json").fitted_on  # doctest: +SKIP

    """
    paths, target = [Path(s) for s in sources], Path(output)
    if collectives or (nccl_tests and machine is not None):
        if machine is None:
            raise ConfigError(
                "library constants are of a machine; say which one the collectives ran on"
            )
        found = load_machine(machine) if isinstance(machine, str) else machine
        return calibrate_collectives(paths, found, target)
    make = calibrate_network if nccl_tests else calibrate_profile
    return make(paths, target)


def list_machines() -> MachinesReport:
    """List the machines that come with the package; `load_machine` gives one.

    Examples
    --------
    >>> "dgx-h100" in [p.name for p in ck.list_machines().presets]
    True

    """
    return MachinesReport(presets=overview())
