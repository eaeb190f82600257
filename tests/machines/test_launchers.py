"""From kernels to operations: the operator around the launch, or what a row says itself."""

from __future__ import annotations

from chakrakit import EdgeKind, Trace, TraceBuilder
from chakrakit.machines.device import Launchers, operations_of
from chakrakit.operators import Operation, gemm_operation
from support.launched import launched_product


def test_the_operations_of_a_small_trace_are_read_once():
    trace = launched_product()
    assert operations_of(trace) is operations_of(trace)
    assert operations_of(trace) == operations_of(launched_product())


def test_a_kernels_operation_is_that_of_the_operator_around_its_launch():
    (work,) = operations_of(launched_product())
    assert work.operation == gemm_operation(512, 256, 1024)._replace(table="gemm.nn")
    assert work.rows == (2,)


def test_kernels_of_one_operator_are_one_operation_and_copies_take_no_part():
    t = TraceBuilder()
    mm = t.comp(
        "aten::mm",
        is_cpu_op=True,
        tid=1,
        start_time_ns=0,
        duration_ns=50_000,
        inputs_shapes="[[512, 1024], [1024, 256]]",
        inputs_types='["Tensor(c10::BFloat16)", "Tensor(c10::BFloat16)"]',
    )
    for name in ("Memset (Device)", "splitK", "reduce"):
        t.edge(mm, t.comp(name, stream=7), EdgeKind.LAUNCH)
    [work] = operations_of(t.build())
    assert (work.rows, work.operator, work.operation.kind) == ((1, 2, 3), "aten::mm", "gemm")
    assert Launchers(t.build()).operator(2) == 0


def test_a_row_that_nobody_launched_says_what_it_is():
    trace = Trace.from_columns(
        {
            "name": ["product", "copy", "unknown", "aten::add"],
            "type": [4] * 4,
            "stream": [7] * 4,
            "op_type": ["matmul", None, None, None],
            "num_ops": [1000, 0, 0, 0],
            "tensor_size": [64, 96, 0, 0],
            "inputs_shapes": [None, None, None, "[[1024], [1024]]"],
            "inputs_types": [None, None, None, '["Tensor(float)", "Tensor(float)"]'],
        }
    )
    found = {w.rows[0]: (w.operation.kind, w.operation.bytes) for w in operations_of(trace)}
    assert found == {0: ("gemm", 64), 1: ("elementwise", 96), 3: ("elementwise", 3 * 4096)}
    assert Launchers(trace).operator(0) is None


def test_the_host_has_no_device_operations():
    t = TraceBuilder()
    t.comp("aten::mm", is_cpu_op=True, tid=1, num_ops=5, tensor_size=5)
    assert list(operations_of(t.build())) == []


def test_a_generated_update_of_parameters_is_that_of_a_fused_optimizer():
    t = TraceBuilder()
    t.comp("update", op_type="optimizer", num_ops=10, tensor_size=1_000_000)
    [work] = operations_of(t.build())
    assert work.operation == Operation("adamw", (), 0.0, 1e6)
