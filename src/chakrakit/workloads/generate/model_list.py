"""What there is in the catalog, with the parameters of each model."""

from __future__ import annotations

import msgspec

from chakrakit.results import Result
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate.figures import parameters
from chakrakit.workloads.models import catalog


class ModelRow(Result, msgspec.Struct, frozen=True):
    """A model of the catalog."""

    name: str
    family: str
    parameters: int
    active_parameters: int
    """Those one token meets."""


class ModelList(Result, msgspec.Struct, frozen=True):
    """All models of the catalog."""

    models: list[ModelRow]


def model_list() -> ModelList:
    """The catalog's models in its order."""
    rows = []
    for name, model in catalog().items():
        total, active = parameters(Workload(model=model))
        family = str(msgspec.to_builtins(model)["family"])
        rows.append(ModelRow(name, family, total, active))
    return ModelList(rows)
