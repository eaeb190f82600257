"""What recorded calls compute, touch and are classed as: operators of real recordings, arguments and all."""

from __future__ import annotations

import gzip
import json

import pytest

from chakrakit.operators import (
    ArgumentTexts,
    cost_of,
    is_communication,
    is_in_place,
    operation_of,
    operator_of,
    read_call,
)
from support.kept_results import compare
from support.paths import DATA

RECORDINGS = [
    *(f"h200/{name}" for name in ("dlrm_sparse", "lstm_lm", "mamba", "moe_hf_mixtral")),
    *(f"h200/{name}" for name in ("unet_sample", "moe_capacity")),
    *(f"pytorch/{name}" for name in ("moe_tiny", "resnet50_b128")),
]


def texts(side):
    return ArgumentTexts(*(json.dumps(side[k]) for k in ("shapes", "types", "strides", "values")))


def calls_of(recording):
    """The distinct calls of a recording, by operator; addresses of tensors do not count."""
    calls = {}
    with gzip.open(DATA / recording / "et.json.gz") as file:
        nodes = json.load(file)["nodes"]
    for node in nodes:
        given, gives = texts(node["inputs"]), texts(node["outputs"])
        key = (given.shapes, given.types, given.strides, gives.shapes)
        calls.setdefault(node["name"], {}).setdefault(key, (given, gives))
    return {name: list(some.values()) for name, some in calls.items()}


def said_of(name, given, gives):
    """Operations on product units and elsewhere, bytes; then class, sizes and work of the operation."""
    call = read_call(name, *given, outputs=gives)
    return " ".join(str(part) for part in (*cost_of(call), *(operation_of(call) or ())))


@pytest.mark.parametrize("recording", RECORDINGS)
def test_kept_costs_of_recorded_calls(recording):
    figures = {}
    for name, calls in calls_of(recording).items():
        operator = operator_of(name)
        about = (
            operator.work.value,
            operator.on_products,
            is_communication(name),
            is_in_place(name),
        )
        figures[name] = [" ".join(map(str, about)), *(said_of(name, *call) for call in calls)]
    compare(f"operators-{recording.replace('/', '-')}", figures)
