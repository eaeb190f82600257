"""Profiles and network models: what they are fitted on, what they say beyond it, and how sure they are."""

import json

import numpy as np
import pytest

from chakrakit import EdgeKind, TraceBuilder
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines.calibrate.calibrate import (
    fit_ranges,
    merge_profiles,
    network_from_nccl_tests,
    profile_from_micro,
    profile_from_trace,
)
from chakrakit.machines.calibrate.operator_tables import profile_from_operators
from chakrakit.machines.device.profile import (
    ClassModel,
    Profile,
    Profiled,
    Row,
    find_profile,
    read_profile,
)
from chakrakit.machines.operations import Operation, gemm_operation, operations_of


def ideal_table():
    """GEMMs at exactly 500 TFLOP/s, but never under 2 us."""
    rows = []
    for m in (64, 256, 1024, 4096):
        for n in (512, 2048, 8192):
            for k in (512, 2048, 8192):
                op = gemm_operation(m, n, k)
                rows.append(Row([m, n, k], max(2.0, op.flops / 500e6), op.flops, op.bytes))
    return tuple(rows)


def test_a_table_gives_back_its_rows_and_what_lies_between():
    model = ClassModel(ideal_table())
    for row in model.rows[::5]:
        found = model.predict(Operation("gemm", tuple(row.shape), row.flops, row.bytes))
        assert found.us == pytest.approx(row.us, rel=0.02)
    op = gemm_operation(2048, 3072, 3072)
    assert model.predict(op).us == pytest.approx(op.flops / 500e6, rel=0.05)


def test_far_from_the_table_the_work_decides_and_the_error_grows():
    model = ClassModel(ideal_table())
    near, far = gemm_operation(4096, 8192, 8192), gemm_operation(65536, 65536, 65536)
    assert model.predict(far).us == pytest.approx(far.flops / 500e6, rel=0.1)
    assert model.predict(far).error > 3 * model.predict(near).error


def test_without_a_shape_flops_and_bytes_are_asked():
    op = gemm_operation(1024, 2048, 2048)
    found = ClassModel(ideal_table()).predict(Operation("gemm", (), op.flops, op.bytes))
    assert found.us == pytest.approx(op.flops / 500e6, rel=0.1)


def test_unaligned_products_are_a_class_apart():
    assert gemm_operation(8192, 50257, 768).kind == "gemm_odd"
    assert gemm_operation(8192, 50304, 768).kind == "gemm"
    assert gemm_operation(1, 2048, 2048).kind == "gemm"


def linked_trace(us=100.0):
    """A host operator that calls a launch that starts a kernel."""
    t = TraceBuilder()
    op = t.node(
        "aten::mm",
        4,
        is_cpu_op=True,
        tid=1,
        duration_ns=50_000,
        start_time_ns=0,
        inputs_shapes="[[512, 1024], [1024, 256]]",
        inputs_types='["Tensor(c10::BFloat16)"]',
    )
    call = t.node(
        "cudaLaunchKernel", 4, is_cpu_op=True, tid=1, duration_ns=5_000, start_time_ns=10_000
    )
    kernel = t.comp("gemm_kernel", duration_ns=round(us * 1000), stream=7, start_time_ns=20_000)
    t.edge(call, kernel, EdgeKind.LAUNCH)
    t.edge(op, call, EdgeKind.CALL)
    return t.build()


def test_a_kernels_operation_is_that_of_the_operator_around_its_launch():
    (work,) = operations_of(linked_trace())
    assert work.operation == gemm_operation(512, 256, 1024)._replace(table="gemm.nn")
    assert work.rows == (2,)


def test_a_profile_from_a_trace_gives_its_time_back():
    profile = profile_from_trace(linked_trace(123.0), "t")
    assert profile.fitted_on == ["t"]
    assert Profiled(profile).costs(linked_trace(1.0), None).ps[2] == 123_000_000


def test_micro_files_are_checked(tmp_path):
    file = tmp_path / "m.json"
    file.write_text(
        json.dumps({"gpu": "X", "rows": [{"op": "mm_bf16", "shape": [8, 8, 8], "us": 2.0}]})
    )
    profile = profile_from_micro(file)
    assert profile.device == "X"
    assert list(profile.classes) == ["gemm"]
    file.write_text('{"rows": [{"op": "mm", "shape": [8], "us": 0}]}')
    with pytest.raises(ConfigError, match="takes 0"):
        profile_from_micro(file)
    file.write_text('{"rows": [{"op": "layer_norm", "shape": [8], "us": 1}]}')
    with pytest.raises(ConfigError, match=r"layer_norm \[8\]; its shape is \[rows, columns\]"):
        profile_from_micro(file)
    file.write_text("{")
    with pytest.raises(ConfigError, match="not a file of microbenchmarks"):
        profile_from_micro(file)


def test_timed_operators_become_tables_with_cold_and_warm_times(tmp_path):
    """Half of what an addition of 16 MiB takes cold is what it takes from the cache."""
    file, types = tmp_path / "operators.json", '["Tensor(float)","Tensor(float)"]'
    rows = [
        {
            "op": "aten::add",
            "shapes": f"[[{n}],[{n}]]",
            "types": types,
            "us": n / 1e5,
            "warm": n / 2e5,
        }
        for n in (1 << 20, 1 << 22, 1 << 24)
    ]
    file.write_text(json.dumps({"gpu": "X", "rows": rows}))
    profiled = Profiled(profile_from_operators(file))
    assert set(profiled.models) == {"add", "elementwise"}
    asked = Operation("elementwise", (1 << 22, 12 << 22), 0.0, 12.0 * (1 << 22), "add")
    cold, warm = (profiled.predict(asked, share) for share in (0.0, 1.0))
    assert cold.us == pytest.approx((1 << 22) / 1e5, rel=0.01)
    assert warm.us == pytest.approx(cold.us / 2, rel=0.01)
    assert not cold.extrapolated
    assert profiled.predict(asked._replace(table="erfinv")).extrapolated
    file.write_text(json.dumps({"rows": [rows[0] | {"us": 0}]}))
    with pytest.raises(ConfigError, match="takes 0"):
        profile_from_operators(file)


def test_bad_profiles_are_refused(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{"classes": {"gemm": [{"shape": [1], "us": 1}, {"shape": [1, 2], "us": 1}]}}')
    with pytest.raises(ConfigError, match="mixes shapes"):
        read_profile(file)
    with pytest.raises(ConfigError, match="h200"):
        find_profile("no such profile")


def test_merging_keeps_the_first_of_equal_shapes():
    a = Profile(classes={"gemm": [Row([1], 1.0)]}, fitted_on=["a"])
    b = Profile(classes={"gemm": [Row([1], 9.0), Row([2], 2.0)]}, fitted_on=["b"])
    merged = merge_profiles([a, b], "ab")
    assert [r.us for r in merged.classes["gemm"]] == [1.0, 2.0]
    assert merged.fitted_on == ["a", "b"]


def test_the_h200_profile_leaves_rows_out_and_still_finds_them():
    profile = find_profile("h200")
    assert "H200" in profile.device
    missed = np.abs(np.expm1(ClassModel(tuple(profile.classes["gemm.nt"])).leave_one_out))
    assert np.median(missed) < 0.08


LOG = """# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)
# Using devices
#  Rank  0 Group  0 Pid 1 on h device  0 NVIDIA H100
#  Rank  1 Group  0 Pid 1 on h device  1 NVIDIA H100
# all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong
{rows}
"""


def nccl_log(points):
    rows = "\n".join(
        f"{s:>12} {s // 4:>12} float sum -1 {us:8.2f} 0.1 0.1 0 {us:8.2f} 0.1 0.1 0"
        for s, us in points
    )
    return LOG.format(rows=rows)


def test_network_models_from_nccl_tests(tmp_path):
    points = [(2**p, 10 + 2**p / 1e3) for p in range(3, 14)]
    points += [(2**p, 30 + 2**p / 1e5) for p in range(14, 28)]
    file = tmp_path / "all_reduce.log"
    file.write_text(nccl_log(points))
    model = network_from_nccl_tests([file])
    ranges = model.collectives["all-reduce"][2]
    assert len(ranges) == 2
    for size, us in points:
        assert model.seconds("all-reduce", 2, size) * 1e6 == pytest.approx(us, rel=0.1)
    assert model.seconds("all-reduce", 4, 8) is None
    assert model.fitted_on == ["all_reduce.log"]
    file.write_text("nothing")
    with pytest.raises(FormatError, match="no nccl-tests log"):
        network_from_nccl_tests([file])


def test_one_straight_line_needs_one_range():
    assert len(fit_ranges([(2.0**p, 5 + 2.0**p / 2e4) for p in range(5, 30)])) == 1


def test_a_single_product_makes_a_profile_and_an_unknown_field_none(tmp_path):
    row = {"op": "aten::mm", "shapes": "[[64,64],[64,64]]", "us": 3.0}
    row["types"] = '["Tensor(float)","Tensor(float)"]'
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"rows": [row]}))
    assert list(profile_from_operators(file).classes) == ["gemm.fp32.nn"]
    file.write_text(json.dumps({"rows": [row | {"colour": "red"}]}))
    with pytest.raises(ConfigError, match="unknown field `colour`"):
        profile_from_operators(file)
