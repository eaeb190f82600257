"""Which rows each work model answers for, and the roofline at what kernels of a device achieve."""

import pytest

from chakrakit import CollectiveType, NodeType, Trace, TraceBuilder
from chakrakit.errors import ChakraError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.machines.device import Auto, CostSource, Measured, Roofline
from chakrakit.machines.device.work import LEARNED_SHARE

PEAKS = {"bf16": 100e12, "fp8": 200e12}


def seconds(achieved, **columns):
    """The time of one device row, of a training step if nothing else is said."""
    row = {"name": ["k"], "type": [4], "is_cpu_op": [False], "phase": ["backward"]}
    trace = Trace.from_columns(row | columns)
    return Roofline().costs(trace, device_with(achieved=achieved)).ps[0] * 1e-12


def device_with(**fields):
    """100 TFLOP/s and 1 TB/s, but for these."""
    device = {"peak": PEAKS, "memory_bandwidth": 1e12, **fields}
    network = [{"topology": "ring", "size": 2, "bandwidth": 1e9}]
    return parse_machine({"device": device, "network": network}, "m").devices[0]


def rows_of_every_kind():
    """Each with work that the roofline would time; those that were timed took 7 us."""
    t = TraceBuilder()
    load, work = NodeType.MEM_LOAD_NODE, {"num_ops": 10**9, "tensor_size": 10**6}
    t.comp("kernel", **work)
    t.comp("timed kernel", duration_ns=7000, **work)
    t.comp("kernel of which nothing is known", duration_ns=7000)
    t.comp("host", duration_ns=7000, is_cpu_op=True, **work)
    t.node("copy by the host", load, duration_ns=7000, is_cpu_op=True, **work)
    t.node("from a store", load, duration_ns=7000, is_cpu_op=False, storage="disk", **work)
    t.collective("sum", CollectiveType.ALL_REDUCE, 10**6, duration_ns=7000, **work)
    return t.build()


def test_the_roofline_times_kernels_and_copies_whose_work_is_known():
    """10 us for 1 GFLOP; the rest keeps its 7 us."""
    costs = Roofline().costs(rows_of_every_kind(), device_with())
    computed = [10, 10, 7, 7, 10, 7, 7]
    assert (costs.ps / 1e6).tolist() == computed
    sources = {10: CostSource.ROOFLINE, 7: CostSource.MEASURED}
    assert costs.source.tolist() == [sources[us] for us in computed]
    assert costs.error.tolist() == [0.5 if us == 10 else 0.0 for us in computed]


def test_auto_computes_only_what_nobody_timed():
    """By a data sheet that states no shares of its rates, at those learned from other devices."""
    costs = Auto(lambda device: None).costs(rows_of_every_kind(), device_with())
    assert (costs.ps / 1e6).tolist() == [pytest.approx(10 / LEARNED_SHARE), 7, 7, 7, 7, 7, 7]
    assert costs.source.tolist() == [CostSource.ROOFLINE, *[CostSource.MEASURED] * 6]
    assert costs.error.tolist() == [0.5, *[0.0] * 6]


def test_auto_asks_no_profile_where_all_work_was_timed():
    """Communication that nobody timed is the network's to answer for."""
    t = TraceBuilder()
    t.comp("kernel", duration_ns=7000, num_ops=10**9)
    t.collective("sum", CollectiveType.ALL_REDUCE, 10**6)
    costs = Auto(lambda device: pytest.fail("asked")).costs(t.build(), device_with())
    assert costs.source.tolist() == [CostSource.MEASURED, CostSource.NONE]


def test_measured_refuses_work_that_nobody_timed():
    with pytest.raises(ChakraError, match=r"1 of 5 operations .* node 0 \('kernel'\)"):
        Measured().costs(rows_of_every_kind(), device_with())


@pytest.mark.parametrize("work", ["num_ops", "tensor_size"])
def test_operations_or_bytes_alone_are_work(work):
    trace = Trace.from_columns({"name": ["k"], "type": [4], work: [5]})
    with pytest.raises(ChakraError, match="1 of 1 operations were never measured"):
        Measured().costs(trace, device_with())


def test_measured_takes_untimed_rows_that_are_no_work():
    """A kernel that does nothing known, a read from a store, and communication: others time them."""
    t = TraceBuilder()
    t.comp("marker")
    t.node("from a store", NodeType.MEM_LOAD_NODE, storage="disk", tensor_size=10**6)
    t.collective("sum", CollectiveType.ALL_REDUCE, 10**6, tensor_size=10**6)
    costs = Measured().costs(t.build(), device_with())
    assert costs.source.tolist() == [CostSource.NONE] * 3


@pytest.mark.parametrize("column", ["own_ns", "duration_ns", "start_time_ns"])
def test_a_row_that_says_when_or_how_long_was_timed_even_if_it_took_nothing(column):
    trace = Trace.from_columns({"name": ["k"], "type": [4], "num_ops": [5], column: [0]})
    assert Measured().costs(trace, device_with()).source.tolist() == [CostSource.MEASURED]


def test_only_times_that_are_used_must_fit_the_clock():
    """9e18 FLOP at 1 kFLOP/s are 285 million years, which only a kernel would take."""
    slow, most = device_with(peak={"bf16": 1e3}), 9 * 10**18
    host, kernel = (
        Trace.from_columns({"name": ["k"], "type": [4], "is_cpu_op": [cpu], "num_ops": [most]})
        for cpu in (True, False)
    )
    assert Roofline().costs(host, slow).ps.tolist() == [0]
    with pytest.raises(ChakraError, match=r"node 0 \('k'\) would take 104,166,666,667 days"):
        Roofline().costs(kernel, slow)


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
