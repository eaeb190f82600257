"""Choosing the unit of every node, and repacking between layouts."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.passes import Units
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet


def machine(layout=""):
    units = {
        "matrix": {"peak": {"bf16": 3e12}, "bandwidth": "60 GB/s", "layout": layout},
        "cores": {"peak": {"bf16": 1e12}},
    }
    device = {"peak": {"bf16": 4e12}, "memory_bandwidth": "100 GB/s", "units": units}
    return ck.machine(
        {"device": device, "network": [{"topology": "switch", "size": 1, "bandwidth": 1}]}
    )


def work():
    """A product with much arithmetic, one with little, and another with much."""
    t = TraceBuilder()
    large = {"num_ops": 10**12, "tensor_size": 10**6, "inputs_shapes": "[[100,100],[100,100]]"}
    first = t.comp("large", **large, dtype="bf16", op_type="matmul")
    small = t.comp("small", num_ops=10**6, tensor_size=10**9, dtype="bf16", deps=[first])
    t.comp("large again", **large, dtype="bf16", op_type="matmul", deps=[small])
    return TraceSet.of(t)


def units_of(traces):
    return traces.trace(0).table.column("unit").to_pylist()


def test_arithmetic_goes_to_the_matrix_unit_and_bytes_to_what_draws_more():
    assert units_of(work() | Units(machine())) == ["matrix", "cores", "matrix"]
    assert units_of(work() | Units(machine(), choose="cores")) == ["cores"] * 3


def test_what_neither_computes_nor_moves_anything_has_no_unit():
    t = TraceBuilder()
    t.comp("nothing", num_ops=0, tensor_size=0, dtype="bf16")
    t.comp("bytes alone", num_ops=0, tensor_size=1, dtype="bf16")
    t.comp("arithmetic alone", num_ops=1, tensor_size=0, dtype="bf16")
    nothing, moved, computed = units_of(TraceSet.of(t) | Units(machine()))
    assert (nothing, moved, computed) == (None, "cores", "matrix")


def test_a_split_uses_all_units_where_arithmetic_limits():
    split = work() | Units(machine(), choose="split")
    assert units_of(split)[0] == "matrix=0.750000000,cores=0.250000000"
    assert units_of(split)[1] == "cores"
    alone, both = (
        ck.simulate(traces, machine(), compute="roofline").makespan_ns
        for traces in (work() | Units(machine()), split)
    )
    assert both < alone


def test_between_layouts_a_tensor_is_repacked_once():
    tiled = work() | Units(machine("tiled"))
    names = [n.name for n in tiled.trace(0)]
    assert names == ["large", "small", "large again", "repack"]
    assert int(tiled.trace(0).column("tensor_size", 0)[3]) == 2 * 2 * 100 * 100
    assert len((work() | Units(machine("tiled"), repack=False)).trace(0)) == 3
    explained = Units(machine("tiled")).explain(work(), tiled)
    assert explained == {"nodes": {"cores": 1, "matrix": 3}, "repacked_bytes": 40_000}


def test_what_the_machine_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="give machine"):
        Units()
    with pytest.raises(ConfigError, match="no `units`"):
        Units("dgx-h200")
    with pytest.raises(ConfigError, match="did you mean 'matrix'"):
        Units(machine(), choose="matrx")
