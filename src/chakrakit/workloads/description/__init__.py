"""What a workload is: model, parallel plan, step, pipeline schedule and mesh."""

from __future__ import annotations

from chakrakit.workloads.description import description
from chakrakit.workloads.description.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Lengths,
    Model,
    Plan,
    Recommender,
    Step,
    Vision,
    Workload,
)
from chakrakit.workloads.description.feasibility import check, even_split
from chakrakit.workloads.description.mesh import Mesh
from chakrakit.workloads.description.schedules import (
    SCHEDULES,
    PipelineSchedule,
    PipelineTask,
    gpipe,
    schedule_named,
    schedule_of,
)

__all__ = [
    "SCHEDULES",
    "Convolutional",
    "Decoder",
    "Diffusion",
    "Lengths",
    "Mesh",
    "Model",
    "PipelineSchedule",
    "PipelineTask",
    "Plan",
    "Recommender",
    "Step",
    "Vision",
    "Workload",
    "check",
    "description",
    "even_split",
    "gpipe",
    "schedule_named",
    "schedule_of",
]
