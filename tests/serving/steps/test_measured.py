"""Step times from measured layers: how often each runs, and experts off their surface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakrakit.serving.steps import MeasuredSteps, read_layers
from chakrakit.serving.steps.measured import at_degree, surface
from support.foreign_files import write_layer_tables


@pytest.fixture
def steps(operators, machine, tmp_path: Path) -> MeasuredSteps:
    layers = read_layers(write_layer_tables(tmp_path / "perf"))
    return MeasuredSteps(layers, operators(), machine())


@pytest.mark.parametrize(
    ("layer", "times"),
    [
        ("embedding", 1),
        ("final_layernorm", 1),
        ("rotary_embedding", 2),
        ("layernorm", 4),
        ("qkv_proj", 2),
        ("gate_up_proj", 2),
        ("moe_router", 0),
    ],
)
def test_how_often_a_layer_runs_in_a_step_of_two_layers(steps, layer: str, times: int) -> None:
    assert steps.times_in_step(layer) == times


def test_layers_of_10_µs_and_1_µs_per_token(steps) -> None:
    """Embedding and last norm once, two norms and a projection in both layers: eight times."""
    assert steps.cost().dense(100) == pytest.approx(8 * 110e-6)
    assert steps.cost().notes == (
        "no table of skew: contexts of unequal length cost what their mean costs",
    )


def table(**more):
    columns = {"tokens": [10, 10, 20, 20], "activated_experts": [1, 8, 1, 8]}
    columns |= {"time_us": [100, 170, 200, 270], **more}
    return {name: np.array(values, float) for name, values in columns.items()}


@pytest.mark.parametrize(
    ("tokens", "met", "us"), [(10, 1, 100), (10, 4.5, 135), (15, 4.5, 185), (30, 8, 370), (0, 1, 0)]
)
def test_a_block_of_experts_is_read_off_between_and_beyond_what_was_measured(
    tokens, met, us
) -> None:
    found = surface(table(), np.array([float(tokens)]), np.array([float(met)]))
    assert found.tolist() == pytest.approx([us * 1e-6])


def test_the_rows_of_the_nearest_degree_are_used() -> None:
    given = table(ep=[1, 1, 4, 4])
    assert at_degree(table(), 4)[1] is False
    kept, sliced = at_degree(given, 5)
    assert (kept["time_us"].tolist(), sliced) == ([200, 270], True)
    assert at_degree(given, 1)[1] is False
