"""Many runs: sweeps over a study, the search for a plan, campaigns of months."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import msgspec

from chakrakit.api.inputs import Path_
from chakrakit.campaigns.job import Job, read_job
from chakrakit.campaigns.results import CampaignResult, history_run, workers_for
from chakrakit.campaigns.results import campaign as run_campaign
from chakrakit.errors import ConfigError
from chakrakit.studies.search import (
    ScriptSearchResult,
    SearchResult,
    ServingSearchResult,
    search_script,
    search_serving,
)
from chakrakit.studies.search import search as search_plans
from chakrakit.studies.sweep import SweepResult, read_study
from chakrakit.studies.sweep import sweep as run_sweep
from chakrakit.parallel import Progress, quiet
from chakrakit.results import Facts
from chakrakit.serving import ServiceLevel, Serving, write_run
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import write
from chakrakit.views.pages import write_sweep_report
from chakrakit.workloads.description import Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import named

AXES = ("tp", "pp", "cp", "ep", "micro_batch", "data", "recompute", "schedule")
"""What a search chooses, and may be told to choose from."""


def sweep(
    study: Path_,
    output: Path_ | None = None,
    *,
    engine: str = "local",
    jobs: int | None = None,
    retry: bool = False,
    progress: Progress = quiet,
) -> SweepResult:
    """Run every point of a study; what is finished is kept and never run again.

    Parameters
    ----------
    study
        The study's YAML file; docs/sweep.md says what it holds.
    output
        The folder of the results, by default `STUDY.sweep`; it gets a table and a page.
    engine, jobs
        Where points run (`local`, `ray`, `dask`), and how many at once.
    retry
        Run points that failed again.
    progress
        Called with the number of points finished, of how many.

    Examples
    --------
    >>> ck.sweep("study.yaml").failed  # doctest: +SKIP
    0

    """
    read = read_study(os.fspath(study))
    folder = Path(output or f"{Path(study).with_suffix('')}.sweep")
    result = run_sweep(read, folder, engine=engine, jobs=jobs, retry=retry, progress=progress)
    write_sweep_report(read.name, result.table, folder / "report.html")
    return result


def campaign(
    job: Path_ | Job | Mapping[str, Any],
    *,
    histories: int = 100,
    seed: int = 0,
    changes: bool = True,
    output: Path_ | None = None,
    history: int = 0,
    engine: str | None = None,
    jobs: int | None = None,
) -> CampaignResult:
    """Run many random histories of a training campaign with failures, checkpoints and recovery.

    Parameters
    ----------
    job
        A YAML file (docs/campaigns.md), what would stand in one as a dictionary, or what
        `chakrakit.campaigns.job.read_job` gives.
    histories, seed
        How many histories are run, and what decides their chance: the same seed gives the same ones.
    changes
        Whether to try what one more spare, a faster detector and so on would give.
    output, history
        Where to write one history as a Run, and which.
    engine, jobs
        Spread the histories over workers (`local`, `ray`, `dask`), and how many at once; by default one
        per core for 1,000 histories or more.

    Returns
    -------
    A `CampaignResult` with days, effective ratio, time lost by cause, and more.

    Examples
    --------
    >>> ck.campaign({"step_seconds": 10, "steps": 8640, "cluster": {"nodes": 16}}).days.mean
    1.0

    """
    made = (
        job
        if isinstance(job, Job)
        else read_job(job if isinstance(job, Mapping) else os.fspath(job))
    )
    workers = workers_for(histories, engine, jobs)
    result = run_campaign(made, histories=histories, seed=seed, workers=workers, changes=changes)
    if output is not None:
        write(history_run(made, history, seed), output)
    return result


class _Found(Facts):
    """What a search came to, with the best of it ready to be used."""

    result: Any

    def facts(self) -> msgspec.Struct:
        """The best and the runners-up."""
        struct: msgspec.Struct = self.result
        return struct


@dataclass(frozen=True, eq=False, repr=False)
class FoundPlan(_Found):
    """The best plan: its workload, and how it compares with the others."""

    workload: Workload
    result: SearchResult


@dataclass(frozen=True, eq=False, repr=False)
class FoundService(_Found):
    """The cheapest way to serve within a level: ready to serve, and how it compares with the others."""

    serving: Serving
    result: ServingSearchResult


@dataclass(frozen=True, eq=False, repr=False)
class FoundScript(_Found):
    """A script's best flags: its traces with them, and how it compares with the others."""

    traces: TraceSet
    result: ScriptSearchResult


@overload
def search(
    model: str, gpus: int | Sequence[int], machine: str, *, serve: Literal[False] = ..., **more: Any
) -> FoundPlan: ...
@overload
def search(
    model: str, gpus: int | Sequence[int], machine: str, *, serve: Literal[True], **more: Any
) -> FoundService: ...
@overload
def search(
    model: None, gpus: int | Sequence[int], machine: str, *, capture: str, **more: Any
) -> FoundScript: ...
def search(
    model: str | None,
    gpus: int | Sequence[int],
    machine: str,
    *,
    capture: str | None = None,
    device: str = "",
    serve: bool = False,
    requests: Any = None,
    engine: str = "vllm",
    slo: str | None = None,
    attain: float = 0.99,
    objective: Literal["step", "energy", "price"] = "step",
    batch: int | None = None,
    seq: int = 4096,
    compute: str = "auto",
    price_per_hour: float | None = None,
    method: Literal["auto", "exhaustive", "optuna"] = "auto",
    trials: int = 300,
    runners_up: int = 5,
    output: Path_ | None = None,
    progress: Progress = quiet,
    **axes: Sequence[Any],
) -> FoundPlan | FoundService | FoundScript:
    """Find the fastest plan (or the cheapest, or the thriftiest) that fits the devices' memory.

    With `serve`, find the cheapest plan, pools and batch limits that serve a stream within a level;
    with `capture`, a script's best flags.

    Parameters
    ----------
    model
        A name from `ck.models()`, or a Hugging Face `config.json`; None with `capture`.
    gpus
        How many devices; several numbers to choose from. With `serve`, one number is the most.
    machine
        A preset or file; a preset gets as many nodes as the devices need.
    capture, device
        A script's command with places for flags, as `python train.py --tp {tp}`, and the GPU it is told
        it has, as for `ck.capture`. Every combination of the axes is captured.
    serve, requests, engine
        Search for a way to serve these requests, given as for `ck.serve`, with this engine.
    slo, attain
        The service level, such as `ttft=500,tpot=50` in milliseconds, and the share of the requests
        that must be within it.
    objective, price_per_hour
        What is to be small, and what a device costs where the machine does not say.
    batch, seq
        Sequences in a step over all devices (by default one per device), and tokens of each.
    compute
        `auto`, `roofline`, or a profile.
    method, trials, runners_up
        How the space is searched, how many plans are sampled, how many others are listed.
    output
        Where to write the best plan's traces, or the Run of the best way to serve.
    progress
        Called with the number of plans decided, of how many.
    axes
        Choose only from these: `tp=[4, 8], schedule=["1f1b"]`; with `serve` tp, pp, ep, batch_tokens,
        batch_requests and pools (`together`, `apart`).

    Examples
    --------
    >>> found = ck.search("gpt3-125m", 8, "dgx-h100", seq=512, tp=[1, 2], pp=[1], data=["ddp"])
    >>> found.result.best.gpus
    8

    """
    counts = [gpus] if isinstance(gpus, int) else list(gpus)
    both: dict[str, Any] = {
        "given": axes,
        "compute": compute,
        "price_per_hour": price_per_hour,
        "runners": runners_up,
        "progress": progress,
    }
    if capture is not None:
        flags = {"device": device, "objective": objective, **both}
        return _search_script(capture, counts, machine, output, **flags)
    if model is None:
        raise ConfigError("give a model, or a script with --capture")
    if serve:
        served = {"engine": engine, "attain": attain, **both}
        return _search_service(model, counts, machine, requests, slo, output, **served)
    if requests is not None or slo is not None:
        raise ConfigError("requests and a service level are for a search with --serve")
    step = Step(seq=seq, global_batch=batch or max(counts))
    how = {"objective": objective, "method": method, "trials": trials, **both}
    return _search_plan(model, step, counts, machine, output, **how)


def _search_plan(
    model: str, step: Step, gpus: Sequence[int], machine: str, output: Path_ | None, **settings: Any
) -> FoundPlan:
    result, workload = search_plans(named(model), step, gpus, machine, **settings)
    if output is not None:
        write(generate(workload), output)
    return FoundPlan(workload, result)


def _search_script(
    command: str, gpus: Sequence[int], machine: str, output: Path_ | None, **settings: Any
) -> FoundScript:
    result, traces = search_script(command, gpus, machine, **settings)
    if output is not None:
        write(traces, output)
    return FoundScript(traces, result)


def _search_service(
    model: str,
    gpus: Sequence[int],
    machine: str,
    requests: Any,
    slo: str | None,
    output: Path_ | None,
    **settings: Any,
) -> FoundService:
    if requests is None or slo is None:
        raise ConfigError("--serve needs --requests and --slo, such as --slo ttft=500,tpot=50")
    result, serving = search_serving(model, gpus, machine, requests, slo, **settings)
    if output is not None:
        served = serving.served(ServiceLevel.parse(slo), record_steps=True)
        write_run(served, Path(output), serving.card())
    return FoundService(serving, result)
