"""Units inside a device: rates of their own, one memory, splits, side work, and what is refused."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device import split_units
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

UNITS = {
    "matrix": {"peak": {"bf16": 100e12, "int4": 400e12}},
    "vector": {"peak": {"bf16": 10e12, "fp32": 10e12}},
    "cores": {"peak": {"bf16": 8e12}, "width": 8, "bandwidth": "100 GB/s"},
}


def machine(**changes):
    device = {"peak": {"bf16": 100e12}, "memory_bandwidth": "1 TB/s", "units": UNITS, **changes}
    network = [{"topology": "switch", "size": 1, "bandwidth": 1e9}]
    return ck.machine({"device": device, "network": network})


def seconds(*nodes, compute="roofline", **changes):
    t = TraceBuilder()
    for node in nodes:
        t.comp("work", **{"dtype": "bf16", "op_type": "matmul", **node})
    done = ck.simulate(TraceSet.of(t), machine(**changes), compute=compute)
    return done.makespan_ns * 1e-9


def node(unit, flops=10**12, moved=8, **more):
    return {"unit": unit, "num_ops": flops, "tensor_size": moved, **more}


def test_a_node_takes_what_its_unit_takes():
    assert seconds(node("matrix")) == pytest.approx(0.01)
    assert seconds(node("vector")) == pytest.approx(0.1)
    assert seconds(node("matrix", dtype="int4")) == pytest.approx(0.0025)
    assert seconds(node("cores")) == pytest.approx(1.0)  # one core of eight


def test_a_split_takes_as_long_as_its_slower_part():
    assert seconds(node("matrix=0.5,vector=0.5")) == pytest.approx(0.05)
    assert seconds(node("matrix=0.909091,vector=0.090909")) == pytest.approx(0.00909, rel=1e-3)


def test_units_work_side_by_side_and_one_of_width_eight_on_eight_nodes():
    assert seconds(node("matrix"), node("vector", 10**11)) == pytest.approx(0.01)
    assert seconds(node("matrix"), node("matrix")) == pytest.approx(0.02)
    assert seconds(*[node("cores")] * 8) == pytest.approx(1.0)
    assert seconds(*[node("cores")] * 9) == pytest.approx(2.0)


def test_all_units_share_one_memory():
    whole = int(10e9)  # 10 ms of the memory's bandwidth
    alone = seconds(node("matrix", 1, whole))
    assert alone == pytest.approx(0.01)
    assert seconds(node("matrix", 1, whole), node("vector", 1, whole)) == pytest.approx(0.02)
    light = node("vector", 10**11, whole // 4)  # a quarter of the bandwidth for 10 ms
    both = seconds(node("matrix", 1, whole), light)
    assert both == pytest.approx(0.0125)  # three quarters of it until 10 ms, then all


def test_nodes_of_a_unit_draw_no_more_together_than_it_may():
    """Eight cores may draw 100 GB/s, so one of them 12.5."""
    share = node("cores", 1, int(1e9))
    assert seconds(share) == pytest.approx(0.08)
    assert seconds(*[share] * 8) == pytest.approx(0.08)


def test_alone_and_together_nodes_reach_the_same_part_of_a_memory():
    """A file without efficiencies gets the share that devices usually reach, in both cases."""
    whole = int(10e9)
    one, two = (
        seconds(*(node(u, 1, whole) for u in units), compute="auto")
        for units in (["matrix"], ["matrix", "vector"])
    )
    assert two == pytest.approx(2 * one)


def test_streams_do_not_let_a_unit_run_more_than_its_width():
    on_streams = [node("cores", stream=s) for s in range(9)]
    assert seconds(*on_streams[:8]) == pytest.approx(1.0)
    assert seconds(*on_streams) == pytest.approx(2.0)


def test_nodes_of_one_stream_keep_their_order_across_units():
    first, second = node("vector", stream=7), node("matrix", stream=7)
    assert seconds(first, second) == pytest.approx(0.11)
    assert seconds(first, {**second, "stream": 8}) == pytest.approx(0.1)
    plain = {"num_ops": 10**12, "tensor_size": 8, "stream": 7}  # on the device, 10 ms
    assert seconds(first, plain, second) == pytest.approx(0.12)


def test_side_work_hides_behind_the_products_until_it_is_longer():
    short, long = (node("matrix", side_unit="vector", side_ops=n) for n in (10**10, 10**12))
    assert seconds(short) == pytest.approx(0.01)
    assert seconds(long) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node("matrixx"), "did you mean 'matrix'"),
        (node("vector", dtype="int4"), "works in int4"),
        (node("matrix=0.5,vector=0.6"), "add up to 1"),
        (node("matrix", side_ops=5), "names no side_unit"),
    ],
)
def test_what_a_device_does_not_have_is_refused(bad, message):
    with pytest.raises((ConfigError, TraceError), match=message):
        seconds(bad)


def test_a_device_without_units_says_so():
    with pytest.raises(ConfigError, match="no `units`"):
        seconds(node("matrix"), units={})


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"peak": {}}, "one element type"),
        ({"peak": {"bf16": 0}}, "nothing would ever finish"),
        ({"peak": {"bf16": 1}, "width": 0}, "width: 0"),
    ],
)
def test_descriptions_of_units_are_checked(unit, message):
    with pytest.raises(ConfigError, match=message):
        machine(units={"matrix": unit})


def test_texts_of_units():
    assert split_units("matrix") == {"matrix": 1.0}
    assert split_units("a=0.25,b=0.75") == {"a": 0.25, "b": 0.75}
    with pytest.raises(TraceError, match="NAME=SHARE"):
        split_units("a=x")


@pytest.mark.parametrize(
    ("nodes", "crowded"),
    [
        ([node("matrix=0.5,vector=0.5"), node("vector", 10**11)], True),
        ([node("matrix", side_ops=10**11, side_unit="vector"), node("vector", 10**11)], True),
        ([node("matrix=0.5,vector=0.5"), node("matrix", 10**11)], False),  # waits its turn
        ([node("matrix=0.5,cores=0.5"), *[node("cores", 10**11)] * 7], False),  # eight at a time
        ([node("matrix"), node("vector", 10**11)], False),
    ],
)
def test_a_unit_that_does_parts_of_others_beside_its_own_nodes_is_named(nodes, crowded):
    t = TraceBuilder()
    for each in nodes:
        t.comp("work", **{"dtype": "bf16", "op_type": "matmul", **each})
    notes = ck.simulate(TraceSet.of(t), machine(), compute="roofline").summary.notes
    assert any("at a time, more than its width" in note for note in notes) == crowded
