"""The time of one step of an engine, from its operators or from measured layers."""

from chakrakit.serving.steps.collectives import CollectiveTimes, times_on
from chakrakit.serving.steps.costing import StepCost, no_attention, picoseconds
from chakrakit.serving.steps.expanded import ServedOperators
from chakrakit.serving.steps.forward import forward_seconds
from chakrakit.serving.steps.layers import read_layers
from chakrakit.serving.steps.measured import MeasuredSteps
from chakrakit.serving.steps.modelled import RATED, MaskedAttention, ModelledSteps, separate_kernels
from chakrakit.serving.steps.operators import StepOperators, step_operators
from chakrakit.serving.steps.sampling import SortedSampling

__all__ = [
    "RATED",
    "CollectiveTimes",
    "MaskedAttention",
    "MeasuredSteps",
    "ModelledSteps",
    "ServedOperators",
    "SortedSampling",
    "StepCost",
    "StepOperators",
    "forward_seconds",
    "no_attention",
    "picoseconds",
    "read_layers",
    "separate_kernels",
    "step_operators",
    "times_on",
]
