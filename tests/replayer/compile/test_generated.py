"""Traces that never ran: operators are made from shapes and types, and they run."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer import ReplayOptions, replay
from chakrakit.replayer.plan import Call, Collective, Wait
from chakrakit.replayer.session import prepare


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "gpt"
    ck.generate(
        model="gpt3-125m",
        output=str(folder),
        layers=1,
        hidden=64,
        heads=4,
        ffn=128,
        vocab=256,
        seq=16,
        global_batch=1,
    )
    return folder


def operators(plan):
    return Counter(s.op.removeprefix("aten::") for s in plan.steps if isinstance(s, Call))


def test_products_attention_and_optimizer_are_the_operators_pytorch_has(generated):
    plan = prepare(ck.read(generated), ReplayOptions()).plans[0]
    found = operators(plan)
    assert plan.count[0] == plan.count[1]
    assert found["mm"] == 15  # four weights of the layer and the head, three times each
    assert found["bmm"] == 2 + 4  # scores and values, and twice as many backwards
    assert found["_fused_adamw_"] >= 1


def test_fused_attention_is_one_operator_each_way(tmp_path):
    small = {"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 256}
    ck.generate(model="llama3.1-8b", output=str(tmp_path / "x"), seq=16, global_batch=1, **small)
    found = operators(prepare(ck.read(tmp_path / "x"), ReplayOptions()).plans[0])
    assert found["scaled_dot_product_attention"] == 1
    assert found["_scaled_dot_product_flash_attention_for_cpu_backward"] == 1


@pytest.mark.slow
def test_a_generated_trace_runs(generated):
    pytest.importorskip("torch")
    report = replay(str(generated), ReplayOptions(), iterations=1, warmup=0)
    assert report.coverage.count == 1
    assert report.stand_ins == []
    assert report.recorded is None  # there is nothing to compare with


def test_communication_is_waited_for_where_it_is_needed():
    bodies = []
    for _ in range(2):
        t = ck.TraceBuilder()
        a = t.comp("x", op_type="vector", tensor_size=1 << 12, dtype="fp32")
        b = t.collective("sum", ck.CollectiveType.ALL_REDUCE, 4096, deps=[a])
        t.comp("beside", op_type="vector", tensor_size=1 << 12, dtype="fp32", deps=[a])
        t.comp("after", op_type="vector", tensor_size=1 << 12, dtype="fp32", deps=[b])
        bodies.append(t.build())
    plan = prepare(ck.TraceSet(bodies), ReplayOptions()).plans[0]
    kinds = [type(s) for s in plan.steps]
    assert kinds == [Call, Collective, Call, Wait, Call]


def test_an_operator_of_a_captured_program_keeps_its_arguments():
    t = ck.TraceBuilder()
    t.comp(
        "aten::addmm",
        op_type="matmul",
        inputs_shapes="[[8],[4,16],[16,8],[],[]]",
        inputs_types=json.dumps([*["Tensor(float)"] * 3, "Int", "Int"]),
        inputs_strides="[[1],[16,1],[1,16],[],[]]",
        inputs_values='["<Tensor>","<Tensor>","<Tensor>",1,1]',
        outputs_types='["Tensor(float)"]',
    )
    plan = prepare(ck.TraceSet([t.build()]), ReplayOptions()).plans[0]
    (call,) = plan.steps
    views = {v[0]: v for e in plan.externals for v in e.views}
    assert [views[a["slot"]][3] for a in call.args[:3]] == [[1], [16, 1], [1, 16]]
    assert call.args[3:] == [1, 1]


def test_nodes_that_say_nothing_cannot_be_made():
    t = ck.TraceBuilder()
    t.comp("x", op_type="matmul", tensor_size=0)
    with pytest.raises(TraceError, match="no node says what it does"):
        prepare(ck.TraceSet([t.build()]), ReplayOptions())
