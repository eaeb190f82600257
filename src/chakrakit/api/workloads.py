"""Traces from models."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import msgspec

from chakrakit.api.inputs import Path_
from chakrakit.machines.load import load_machine
from chakrakit.results import Facts
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import write
from chakrakit.workloads.description import Model, Workload
from chakrakit.workloads.generate import (
    Figures,
    Generated,
    ModelList,
    dry_run,
    generated,
    model_list,
    refuse_over_capacity,
    with_fit,
)
from chakrakit.workloads.models import named, workload_of


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedTraces(Facts):
    """A workload's traces, made when they are asked for, and what they amount to."""

    programs: Generated
    figures: Figures

    @property
    def workload(self) -> Workload:
        """What was generated."""
        return self.programs.workload

    @cached_property
    def traces(self) -> TraceSet:
        """The traces of all ranks, folded."""
        return self.programs.traces()

    def facts(self) -> msgspec.Struct:
        """Parameters, FLOPs, memory and bytes."""
        return self.figures


def generate(
    workload: Workload | Path_ | None = None,
    *,
    model: str | Model | None = None,
    output: Path_ | None = None,
    machine: str | None = None,
    memory_gib: float | None = None,
    **fields: Any,
) -> GeneratedTraces:
    """Generate the traces of a model under a parallel plan, with nothing run.

    Parameters
    ----------
    workload
        A `Workload`, or the path of a YAML file; else give `model`.
    model
        A name from `ck.models()`, the path of a Hugging Face `config.json`, or a `Model`, such as
        `ck.models(name)` gives.
    output
        Where to write the traces: a directory, or `NAME.N.et` for one file per rank.
    machine
        Say in the figures (`fits`) whether its devices have enough memory.
    memory_gib
        Refuse a plan that needs more than this on a device.
    fields
        Fields of the plan, the step or the model: `dp=8, tp=4, seq=4096, global_batch=64`.

    Examples
    --------
    >>> made = ck.generate(model="gpt3-125m", dp=4, tp=2, seq=512, global_batch=8)
    >>> made.figures.ranks, len(made.traces)
    (8, 8)

    """
    if isinstance(workload, Workload):
        chosen = workload
    else:
        chosen = workload_of(None if workload is None else os.fspath(workload), model, fields)
    made = generated(chosen)
    found = GeneratedTraces(made, dry_run(made))
    if memory_gib:
        refuse_over_capacity(found.figures, int(memory_gib * 2**30), "the device")
    if machine:
        smallest = min(load_machine(machine).devices, key=lambda device: device.memory)
        found = GeneratedTraces(made, with_fit(found.figures, int(smallest.memory)))
    if output is not None:
        write(found.traces, output)
    return found


@overload
def models(name: None = None) -> ModelList: ...
@overload
def models(name: str) -> Model: ...
def models(name: str | None = None) -> ModelList | Model:
    """List the models that `generate` knows by name, or give one as a description.

    Parameters
    ----------
    name
        A model's name, or the path of a Hugging Face `config.json`.

    Returns
    -------
    A list of models with their parameters; with `name`, the model, whose fields a YAML file can change.

    Examples
    --------
    >>> "llama3.1-8b" in [m.name for m in ck.models().models]
    True
    >>> ck.models("llama3.1-8b").layers
    32

    """
    return model_list() if name is None else named(name)
