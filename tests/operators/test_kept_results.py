"""What recorded calls compute, touch and are classed as: operators of real recordings, arguments and all."""

from __future__ import annotations

import gzip
import json

import pytest

from chakrakit.operators import (
    TABLED,
    ArgumentTexts,
    Call,
    Operand,
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
    return said_of_call(read_call(name, *given, outputs=gives))


def said_of_call(call):
    """Operations on product units and elsewhere, bytes; then class, sizes and work of the operation."""
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


def tensor(*shape, bytes_each=2, last=False):
    """A tensor; with `last`, one whose channels lie side by side."""
    strides = (shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]) if last else None
    return Operand(shape, bytes_each, "c10::BFloat16" if bytes_each == 2 else "float", strides)


INDICES = Operand((24,), 8, "long int")
CALLS = {
    "vectors": [tensor(640), tensor(640), tensor(640)],
    "matrix and vector": [tensor(48), tensor(48, 640), tensor(640), tensor(48)],
    "vector after": [tensor(48, 640), tensor(640), INDICES],
    "products": [tensor(48, 640), tensor(640, 96), tensor(96)],
    "added": [tensor(96), tensor(48, 640), tensor(640, 96), tensor(96)],
    "batches": [tensor(4, 48, 640), tensor(4, 640, 96), tensor(4, 48, 96)],
    "images": [tensor(2, 16, 14, 18), tensor(32, 16, 3, 3), tensor(32)],
    "images, channels last": [tensor(2, 16, 14, 18, last=True), tensor(2, 16, 14, 18, last=True)],
    "heads": [
        tensor(2, 8, 64, 32),
        tensor(2, 2, 80, 32),
        tensor(2, 2, 80, 32),
        tensor(2, 8, 64, 32),
    ],
    "rows by index": [tensor(500, 64, bytes_each=4), INDICES, INDICES, INDICES],
    "index first": [INDICES, tensor(500, 64, bytes_each=4), INDICES],
}
"""Arguments of unlike shapes: most operators take some of them, and of the others nothing is known."""
VALUES = (None, [1], True, 1)


def test_kept_costs_of_every_operator_that_is_listed():
    figures = {}
    for name in sorted(TABLED):
        calls = [Call(f"aten::{name}", given, VALUES) for given in CALLS.values()]
        figures[name] = [said_of_call(call) for call in calls]
    compare("operators-listed", figures)
