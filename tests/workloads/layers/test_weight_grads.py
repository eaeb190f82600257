"""When weights' gradients are computed and summed: fused into one product, or one kernel after another."""

import pytest

from chakrakit import generate, simulate
from chakrakit.trace.model import CollectiveType

PLAN = {
    "model": "gpt3-1.3b",
    "tp": 8,
    "sequence_parallel": False,
    "seq": 512,
    "global_batch": 2,
    "micro_batch": 1,
}


@pytest.fixture(scope="module")
def traces():
    return {how: generate(**PLAN, weight_grads=how).traces for how in ("fused", "separate")}


def rows_named(trace, ending):
    codes, names = trace.texts("name")
    return [i for i, c in enumerate(codes) if names[c].endswith(ending)]


def test_a_kernel_adds_every_product_to_the_gradient_where_they_are_separate(traces):
    assert not rows_named(traces["fused"][0], ".dw.add")
    trace = traces["separate"][0]
    lookups = rows_named(trace, "embedding.dw") + rows_named(trace, "positions.dw")
    products = set(rows_named(trace, ".dw")) - set(lookups)
    assert len(rows_named(trace, ".dw.add")) == len(products)


def test_one_micro_batch_has_nothing_to_add_to():
    trace = generate(**PLAN | {"global_batch": 1}, weight_grads="separate").traces[0]
    assert not rows_named(trace, ".dw.add")


def test_adding_reads_the_product_and_the_gradient_and_writes_the_gradient(traces):
    trace = traces["separate"][0]
    row = rows_named(trace, "layers.0.mlp.up.dw.add")[0]
    elements = 2048 * 4 * 2048 // 8
    assert trace.column("tensor_size", 0)[row] == 3 * 2 * elements


def test_a_reduction_of_input_gradients_runs_beside_the_weights_product_only_where_they_are_fused(
    traces,
):
    fused, separate = (simulate(traces[how], "dgx-a100") for how in ("fused", "separate"))
    assert separate.makespan_ns > fused.makespan_ns
    reductions = [
        sum(t[0].column("comm_type", -1) == CollectiveType.ALL_REDUCE) for t in traces.values()
    ]
    assert reductions[0] == reductions[1]
