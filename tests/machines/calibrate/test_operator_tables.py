"""Profiles from operators timed one by one, with a cold and with a warm cache."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.device import Profiled
from chakrakit.machines.operator_tables import is_operator_table, profile_from_operators
from chakrakit.operators import Operation


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
    assert set(profiled.classes) == {"add", "elementwise"}
    asked = Operation("elementwise", (1 << 22, 12 << 22), 0.0, 12.0 * (1 << 22), "add")
    cold, warm = (profiled.predict(asked, share) for share in (0.0, 1.0))
    assert cold.us == pytest.approx((1 << 22) / 1e5, rel=0.01)
    assert warm.us == pytest.approx(cold.us / 2, rel=0.01)
    assert not cold.extrapolated
    assert profiled.predict(asked._replace(table="erfinv")).extrapolated
    file.write_text(json.dumps({"rows": [rows[0] | {"us": 0}]}))
    with pytest.raises(ConfigError, match="takes 0"):
        profile_from_operators(file)


def test_a_single_product_makes_a_profile_and_an_unknown_field_none(tmp_path):
    row = {"op": "aten::mm", "shapes": "[[64,64],[64,64]]", "us": 3.0}
    row["types"] = '["Tensor(float)","Tensor(float)"]'
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"rows": [row]}))
    assert list(profile_from_operators(file).classes) == ["gemm.fp32.nn"]
    file.write_text(json.dumps({"rows": [row | {"colour": "red"}]}))
    with pytest.raises(ConfigError, match="unknown field `colour`"):
        profile_from_operators(file)


def adds(*rows):
    """Additions of vectors as (elements, µs)."""
    types = '["Tensor(float)","Tensor(float)"]'
    return [
        {"op": "aten::add", "shapes": f"[[{n}],[{n}]]", "types": types, "us": us} for n, us in rows
    ]


def profiled(tmp_path, rows):
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"rows": rows}))
    return profile_from_operators(file)


def test_a_shape_that_was_timed_several_times_has_its_median(tmp_path):
    large = 1 << 22
    classes = profiled(tmp_path, adds((large, 10.0), (large, 90.0), (large, 12.0))).classes
    assert [row.us for row in classes["elementwise"]] == [12.0]


def test_neighbours_of_about_the_same_time_are_left_out(tmp_path):
    rows = adds((1 << 22, 10.0), (int(1.1 * (1 << 22)), 10.2), (int(1.2 * (1 << 22)), 14.0))
    classes = profiled(tmp_path, rows).classes
    assert [row.us for row in classes["add"]] == [10.0, 14.0]


def test_a_class_timed_only_where_it_is_latency_says_nothing(tmp_path):
    assert "add" not in profiled(tmp_path, adds((64, 2.0), (128, 2.1))).classes


def test_times_of_nothing_are_refused_and_tables_are_told_by_their_words(tmp_path):
    with pytest.raises(ConfigError, match=r"aten::add \[\[64\],\[64\]\] takes 0"):
        profiled(tmp_path, adds((64, 0)))
    assert is_operator_table(tmp_path / "operators.json")
    (tmp_path / "micro.json").write_text('{"rows": [{"op": "mm", "shape": [8], "us": 1}]}')
    assert not is_operator_table(tmp_path / "micro.json")
