"""`generate`: from a workload to a TraceSet, and what it amounts to."""

from __future__ import annotations

from chakrakit.workloads.generate.engine_steps import CacheMove, EngineSteps, SteppedEngines
from chakrakit.workloads.generate.figures import (
    ClassFigures,
    CommunicationFigures,
    Figures,
    ModelList,
    SectionFigures,
    communication,
    dry_run,
    model_list,
    refuse_over_capacity,
    replicated,
    with_fit,
)
from chakrakit.workloads.generate.generator import generate, generated
from chakrakit.workloads.generate.inference import touched_experts
from chakrakit.workloads.generate.model_figures import (
    ModelFigures,
    PrecisionUsed,
    model_figures,
    parameters,
)
from chakrakit.workloads.generate.programs import VERSION, Generated, RankClass
from chakrakit.workloads.generate.requests import Iteration, RequestPiece
from chakrakit.workloads.generate.series import Series

__all__ = [
    "VERSION",
    "CacheMove",
    "ClassFigures",
    "CommunicationFigures",
    "EngineSteps",
    "Figures",
    "Generated",
    "Iteration",
    "ModelFigures",
    "ModelList",
    "PrecisionUsed",
    "RankClass",
    "RequestPiece",
    "SectionFigures",
    "Series",
    "SteppedEngines",
    "communication",
    "dry_run",
    "generate",
    "generated",
    "model_figures",
    "model_list",
    "parameters",
    "refuse_over_capacity",
    "replicated",
    "touched_experts",
    "with_fit",
]
