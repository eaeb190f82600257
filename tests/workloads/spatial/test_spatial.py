"""Networks on grids: published figures, halos by the formula, and what a device holds."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.spatial import Network, Window, generate_spatial, halo_bytes, network_named


def sent(traces: TraceSet, part: str) -> int:
    return sum(
        int(node["comm_size"])
        for rank in traces.ranks
        for node in traces.trace(rank).nodes.select(["name", "comm_size"]).to_pylist()
        if node["name"].endswith(part)
    )


def peak(traces: TraceSet) -> int:
    peaks = []
    for rank in traces.ranks:
        held, freed = (traces.trace(rank).column(c, 0) for c in ("mem_alloc", "mem_free"))
        peaks.append(int((np.cumsum(held - freed) + freed).max()))
    return max(peaks)


@pytest.mark.parametrize(
    ("name", "parameters", "multiply_adds"),
    [("vgg16", 138_357_544, 15_470_264_320), ("mobilenet-v2", 3_504_872, 300_774_272)],
)
def test_published_networks_have_their_published_figures(
    name: str, parameters: int, multiply_adds: int
) -> None:
    network = network_named(name)
    assert network.parameters == parameters
    assert network.flops == 2 * multiply_adds
    traces = generate_spatial(network)
    assert int(traces.trace(0).column("num_ops", 0)[_matrix(traces)].sum()) == 2 * multiply_adds


def _matrix(traces: TraceSet) -> np.ndarray:
    return np.array([t == "matmul" for t in traces.trace(0).nodes.column("op_type").to_pylist()])


@pytest.mark.first(3)
@pytest.mark.parametrize("tiles", [(1, 4), (3, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("name", ["convolutions", "grid-attention"])
def test_halos_have_the_bytes_of_the_formula_and_all_work_is_done_once(
    name: str, tiles: tuple[int, int]
) -> None:
    network = network_named(name, 101)  # does not divide by any of them
    traces = generate_spatial(network, ck.SpatialPlan(rows=tiles[0], columns=tiles[1]))
    assert sent(traces, ".halo.send") == sum(halo_bytes(s, *tiles) for s in network.sized)
    work = sum(int(traces.trace(r).column("num_ops", 0).sum()) for r in traces.ranks)
    assert work == pytest.approx(network.flops, rel=1e-6)
    assert ck.validate(traces).ok


def test_the_way_back_exchanges_halos_again_and_sums_gradients() -> None:
    plan = ck.SpatialPlan(rows=2, columns=2, backward=True)
    traces = generate_spatial(network_named("convolutions", 64), plan)
    forward = sum(halo_bytes(s, 2, 2) for s in network_named("convolutions", 64).sized)
    assert sent(traces, ".halo.send") == 2 * forward
    assert sent(traces, "gradients") == 4 * 2 * network_named("convolutions").parameters
    assert ck.simulate(traces, machine="dgx-h100").makespan_ns > 0


def test_cutting_within_layers_lowers_the_peak_and_cutting_between_them_does_not() -> None:
    held = {
        (split, ranks): peak(
            generate_spatial("mobilenet-v2", ck.SpatialPlan(split=split, columns=ranks, element=1))
        )
        for split in ("channels", "layers")
        for ranks in (1, 4)
    }
    assert held["layers", 1] == held["channels", 1] == held["layers", 4]
    assert held["channels", 4] < held["channels", 1] / 2


def test_a_residual_connection_keeps_its_input() -> None:
    layers = [Window("a", channels=8), Window("b"), Window("c")]
    plain = Network("plain", (16, 16), 8, layers)
    residual = Network("residual", (16, 16), 8, [*layers[:2], Window("c", adds=3)])
    one = 16 * 16 * 8 * 2
    assert peak(generate_spatial(plain)) == 2 * one
    assert peak(generate_spatial(residual)) == 3 * one


@pytest.mark.parametrize("name", ["rows", "columns", "batch", "element"])
def test_a_plan_has_one_of_everything_at_least(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} of a spatial plan is 0"):
        generate_spatial("vgg16", ck.SpatialPlan(**{name: 0}))
    assert len(generate_spatial("vgg16", ck.SpatialPlan(**{name: 1})).ranks) == 1


def test_what_cannot_be_cut_is_said() -> None:
    with pytest.raises(ConfigError, match="narrower than a halo"):
        generate_spatial("vgg16", ck.SpatialPlan(rows=16, columns=16))
    with pytest.raises(ConfigError, match="did you mean"):
        generate_spatial("vgg61")


def test_the_shorter_side_of_a_grid_decides_how_often_it_is_cut() -> None:
    """A grid of 8 × 64: tiles of half a row are narrower than a halo of 1."""
    network = Network("wide", (8, 64), 3, [Window("conv", channels=4)])
    assert len(generate_spatial(network, ck.SpatialPlan(rows=8)).ranks) == 8
    with pytest.raises(ConfigError, match="narrower than a halo"):
        generate_spatial(network, ck.SpatialPlan(rows=16))
