"""The roofline at what kernels of a device achieve."""

import pytest

from chakrakit import NodeType, Trace
from chakrakit.errors import ChakraError
from chakrakit.machines.device import Roofline
from chakrakit.machines.load import load_machine, parse_machine

PEAKS = {"bf16": 100e12, "fp8": 200e12}


def seconds(achieved, **columns):
    """The time of one device row, of a training step if nothing else is said."""
    device = {"peak": PEAKS, "memory_bandwidth": 1e12, "achieved": achieved}
    text = {"device": device, "network": [{"topology": "ring", "size": 2, "bandwidth": 1e9}]}
    row = {"name": ["k"], "type": [4], "is_cpu_op": [False], "phase": ["backward"]}
    trace = Trace.from_columns(row | columns)
    return Roofline().costs(trace, parse_machine(text, "m").devices[0]).ps[0] * 1e-12


@pytest.mark.parametrize(
    ("dtype", "op", "expected"),
    [
        ("bf16", "matmul", 1e12 / 50e12),
        ("fp8", "matmul", 1e12 / 50e12),
        ("bf16", "attention", 1e12 / 20e12),
    ],
)
def test_products_and_attention_reach_shares_of_their_own(dtype, op, expected):
    achieved = {"bf16": 0.5, "fp8": 0.25, "attention": 0.2}
    found = seconds(achieved, num_ops=[10**12], dtype=[dtype], op_type=[op])
    assert found == pytest.approx(expected)


def test_what_is_not_said_reaches_the_peak_and_memory_its_share():
    assert seconds({}, num_ops=[10**12], op_type=["attention"]) == pytest.approx(0.01)
    assert seconds({"memory": 0.5}, tensor_size=[10**9]) == pytest.approx(2e-3)


def test_steps_without_a_backward_pass_take_the_efficiencies():
    found = seconds({"memory": 0.5}, tensor_size=[10**9], phase=["forward"])

    assert found == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("num_ops", -1, r"node 7 \('k'\) has num_ops -1; give 0 or more"),
        ("own_ns", -5, r"node 7 \('k'\) has a duration of -5 ns; it must be 0 or more"),
        ("duration_ns", -5, r"node 7 \('k'\) has a duration of -5 ns; it must be 0 or more"),
    ],
)
def test_what_is_below_zero_is_refused(column, value, says):
    columns = {"id": [7], "name": ["k"], "type": [NodeType.COMP_NODE], "tensor_size": [1000]}
    trace = Trace.from_columns({**columns, column: [value]})
    with pytest.raises(ChakraError, match=says):
        Roofline().costs(trace, load_machine("dgx-h100").devices[0])
