"""Profiles and network models: what they are fitted on, what they say beyond it, and how sure they are."""

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.device.profile import (
    ClassModel,
    Profile,
    Profiled,
    Row,
    find_profile,
    read_profile,
)
from chakrakit.operators import Operation, gemm_operation


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


def test_nothing_is_extrapolated_beyond_what_the_device_can_do():
    """Its table gets faster and faster; beyond it memory is the limit."""
    rows = [Row([n], n / 1000 / (n / 1e6) ** 0.5, 0.0, float(n)) for n in (10**6, 10**7, 10**8)]
    limits = {"peak": {"bf16": 1e15}, "memory_bandwidth": 10e9, "cache_bytes": 1e6}
    model = Profiled(Profile(classes={"elementwise": rows}, **limits))
    inside, beyond = (
        model.predict(Operation("elementwise", (n,), 0.0, float(n))) for n in (10**8, 10**12)
    )
    assert inside is not None
    assert inside.us == pytest.approx(rows[2].us, rel=0.05)
    assert beyond is not None
    assert beyond.us == pytest.approx((1e12 - 1e6) / 10e9 * 1e6)


def test_unaligned_products_are_a_class_apart():
    assert gemm_operation(8192, 50257, 768).kind == "gemm_odd"
    assert gemm_operation(8192, 50304, 768).kind == "gemm"
    assert gemm_operation(1, 2048, 2048).kind == "gemm"


def test_bad_profiles_are_refused(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{"classes": {"gemm": [{"shape": [1], "us": 1}, {"shape": [1, 2], "us": 1}]}}')
    with pytest.raises(ConfigError, match="mixes shapes"):
        read_profile(file)
    with pytest.raises(ConfigError, match="h200"):
        find_profile("no such profile")


def test_the_h200_profile_leaves_rows_out_and_still_finds_them():
    profile = find_profile("h200")
    assert "H200" in profile.device
    missed = np.abs(np.expm1(ClassModel(tuple(profile.classes["gemm.nt"])).leave_one_out))
    assert np.median(missed) < 0.08
