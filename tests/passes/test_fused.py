"""Kernels in the place of others, on a small program of one optimizer that updates tensors one by one."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.passes import FusedAttention, FusedOptimizer, Graphed
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import TraceSet

TENSORS = 4
SHAPE = [4096, 4096]


def looped() -> TraceSet:
    """`Optimizer.step` of 1 ms around four updates of 100 µs each, each with a kernel of 400 µs."""
    names = ["Optimizer.step#AdamW.step", *["aten::addcdiv_"] * TENSORS, *["update"] * TENSORS]
    host = [True] * (1 + TENSORS) + [False] * TENSORS
    starts = [0, *(10_000 + 200_000 * i for i in range(TENSORS))]
    starts += [20_000 + 400_000 * i for i in range(TENSORS)]
    durations = [1_000_000, *[100_000] * TENSORS, *[400_000] * TENSORS]
    own = [600_000, *durations[1:]]
    tensors = [json.dumps([SHAPE] * 3 + [[]])] * TENSORS
    kinds = [json.dumps(["Tensor(float)"] * 3 + ["Double"])] * TENSORS
    trace = Trace.from_columns(
        {
            "id": list(range(1, 1 + len(names))),
            "name": names,
            "type": [int(NodeType.COMP_NODE)] * len(names),
            "is_cpu_op": host,
            "start_time_ns": starts,
            "duration_ns": durations,
            "own_ns": own,
            "inputs_shapes": ["", *tensors, *[""] * TENSORS],
            "inputs_types": ["", *kinds, *[""] * TENSORS],
            "parent": [None, *[1] * TENSORS, *[None] * TENSORS],
            "stream": [0] * (1 + TENSORS) + [7] * TENSORS,
        },
        edges=_edges(),
    )
    return TraceSet([trace], {0: Binding(0)})


def _edges() -> Edges:
    calls = list(range(1, 1 + TENSORS))
    kernels = list(range(1 + TENSORS, 1 + 2 * TENSORS))
    launch = Edges.of(calls, kernels, EdgeKind.LAUNCH)
    stream = Edges.of(kernels[:-1], kernels[1:], EdgeKind.STREAM)
    thread = Edges.of([0, *calls[:-1]], calls, EdgeKind.THREAD)
    return Edges.concat([launch, stream, thread])


def test_one_kernel_updates_all_tensors() -> None:
    """67 million float32 parameters, of which a fused Adam moves seven tensors, at most of 4.8 TB/s."""
    fused = looped() | FusedOptimizer("dgx-h200", host_us=200)
    body = fused.body_at(0)
    kernels = body.own_ns[-TENSORS:]
    least_ns = 7 * 4 * TENSORS * SHAPE[0] * SHAPE[1] / 4.8e12 * 1e9
    assert (kernels[1:] == 0).all()
    assert least_ns < kernels[0] < 2 * least_ns
    assert body.own_ns[0] == 200_000
    assert (body.own_ns[1 : 1 + TENSORS] == 0).all()
    slower = looped() | FusedOptimizer("dgx-h200", slower=2)
    assert slower.body_at(0).own_ns[-TENSORS] == pytest.approx(2 * kernels[0], abs=1)


def test_what_a_kernel_takes_must_be_known() -> None:
    with pytest.raises(TraceError, match="give machine=NAME"):
        looped() | FusedOptimizer()


def test_kernels_of_a_graph_wait_for_nobody_but_each_other() -> None:
    body = (looped() | Graphed(gap_us=2)).body_at(0)
    assert (body.own_ns[: 1 + TENSORS] == 0).all()
    assert (body.own_ns[-TENSORS:] == 400_000).all()
    assert set(body.edges.lag[body.edges.kind == EdgeKind.STREAM].tolist()) == {2_000}
    done = ck.simulate(looped() | Graphed(gap_us=2), compute="measured", communication="measured")
    assert done.makespan_ns == TENSORS * 400_000 + (TENSORS - 1) * 2_000


def test_programs_without_what_is_replaced_are_refused() -> None:
    with pytest.raises(TraceError, match="no call of aten::_scaled_dot_product_attention_math"):
        looped() | FusedAttention("dgx-h200")
    alone = ck.generate(model="gpt3-125m", layers=1, seq=128).traces
    with pytest.raises(TraceError, match="no kernel is launched"):
        alone | Graphed()
    with pytest.raises(TraceError, match="no optimizer launches"):
        alone | FusedOptimizer("dgx-h200")


@pytest.mark.parametrize("damaged", ["[[8,", "7", "[[1e999]]", "[" * 5_000])
def test_arguments_that_cannot_be_read_are_an_error_on_purpose(damaged: str) -> None:
    """Anybody may have written a recording, and `analyze` tries the pass on every one."""
    [body] = looped().bodies
    shapes = ["", *[damaged] * TENSORS, *[""] * TENSORS]
    traces = TraceSet([body.with_columns({"inputs_shapes": shapes})], {0: Binding(0)})
    with pytest.raises(TraceError, match="has no fused kernel here"):
        (traces | FusedOptimizer("dgx-h200")).body_at(0)
