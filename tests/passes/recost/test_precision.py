"""Work in another precision: bytes follow the element type, operations and whole numbers do not."""

from __future__ import annotations

from chakrakit import CollectiveType, Trace, TraceBuilder, TraceSet
from chakrakit.passes.recost import Recost, in_precision, with_dtypes, without_guesses


def test_bytes_that_nodes_touch_and_hold_follow_their_element_type():
    t = TraceBuilder()
    t.comp("g", stream=1, op_type="matmul", dtype="bf16", num_ops=9, tensor_size=101, mem_alloc=64)
    t.comp("ids", stream=1, op_type="matmul", dtype="int64", tensor_size=100)
    t.comp("free", stream=1, op_type="norm", dtype="bf16", tensor_size=100, mem_free=64)
    trace = in_precision(t.build(), {"gemm": "fp8"})
    assert trace.table.column("dtype").to_pylist() == ["fp8", "int64", "bf16"]
    assert trace.column("tensor_size").tolist() == [51, 100, 100]  # rounded up
    assert trace.column("mem_alloc", 0).tolist() == [32, 0, 0]
    assert trace.column("mem_free", 0).tolist() == [0, 0, 32]  # what was taken by the first
    assert trace.column("num_ops", 0).tolist() == [9, 0, 0]


def test_element_types_are_read_from_the_tensors_that_an_operator_takes():
    trace = Trace.from_columns(
        {
            "name": ["mm", "plain", "told"],
            "type": [4, 4, 4],
            "stream": [1, 1, 1],
            "inputs_types": ['["Tensor(c10::BFloat16)"]', '["Int"]', '["Tensor(float)"]'],
            "dtype": [None, None, "fp8"],
        }
    )
    assert with_dtypes(trace).table.column("dtype").to_pylist() == ["bf16", None, "fp8"]


def test_types_that_were_only_guessed_are_taken_out_again():
    trace = Trace.from_columns({"name": ["a", "b", "c"], "dtype": [None, None, "fp32"]})
    typed = trace.with_columns({"dtype": ["bf16", "bf16", "fp32"]})
    changed = typed.with_columns({"dtype": ["fp8", "bf16", "fp32"]})
    kept = without_guesses(changed, typed, trace)
    assert kept.table.column("dtype").to_pylist() == ["fp8", None, "fp32"]
    assert without_guesses(typed, typed, typed) is typed


def test_messages_in_another_precision_are_smaller_and_whole_numbers_are_not():
    t = TraceBuilder()
    t.collective("gradients", CollectiveType.ALL_REDUCE, 400, comm_dtype="fp32", out_size=400)
    t.collective("tokens", CollectiveType.ALL_REDUCE, 800, comm_dtype="int64")
    t.collective("unknown", CollectiveType.ALL_REDUCE, 100)
    before = TraceSet([t.build()])
    recost = Recost(dtypes={"communication": "bf16"})
    after = before | recost
    assert after.trace(0).column("comm_size").tolist() == [200, 800, 100]
    assert after.trace(0).column("out_size", -1).tolist() == [200, -1, -1]
    assert recost.explain(before, after)["communication_bytes"] == {"before": 1300, "after": 1100}
