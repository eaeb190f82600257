"""A body as one rank runs it: its groups, its peers, its pace."""

import pytest

from chakrakit import Binding, CollectiveType, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.communication import bind


@pytest.fixture
def body():
    t = TraceBuilder()
    t.comp("mm", duration_ns=1500, num_ops=100, tensor_size=10)
    t.collective("sum", CollectiveType.ALL_REDUCE, 64, pg_name="tp", duration_ns=700)
    t.send("out", src=0, dst=1, size=8)
    return t.build()


def test_a_plain_binding_is_the_body_itself(body):
    assert bind(body, Binding(0)) is body


def test_groups_and_peers_are_renamed_and_the_rest_stays(body):
    bound = bind(body, Binding(0, groups={"tp": "7", "dp": "9"}, peers={1: 5}))
    assert [n.get("pg_name") for n in bound] == [None, "7", None]
    assert [n.get("comm_dst") for n in bound] == [None, None, 5]
    assert bound[2].get("comm_src") == 0


def test_scale_is_for_compute_alone(body):
    bound = bind(body, Binding(0, scale=1.5))
    assert bound.duration_ns.tolist() == [2250, 700, 0]
    assert (bound[0].get("num_ops"), bound[0].get("tensor_size")) == (150, 15)
    assert bound[1].get("comm_size") == 64


@pytest.mark.parametrize("scale", [-1.0, float("inf"), float("nan")])
def test_a_scale_that_makes_no_time_is_refused(scale):
    with pytest.raises(TraceError, match="it should be 0 or more, and finite"):
        Binding(0, scale=scale)
