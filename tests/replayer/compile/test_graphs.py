"""Decoding from a CUDA graph, recorded on a GPU: the graph's operators come from its capture."""

from __future__ import annotations

from collections import Counter

import pytest

from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.plan import Call, StandIn
from chakrakit.replayer.session import prepare
from support.recorded import linked


@pytest.fixture(scope="module")
def plan():
    return prepare(linked("decode_graph"), ReplayOptions(device="cuda")).plans[0]


def test_every_kernel_of_the_graph_belongs_to_an_operator_that_is_called(plan):
    """Recorded without the observer, what is beside the graph can only be waited for."""
    outside = [s.name for s in plan.steps if isinstance(s, StandIn)]
    assert [name.split("<")[0] for name in outside] == [
        "void at::native::vectorized_elementwise_kernel",
        "Memcpy DtoH (Device -> Pinned)",
    ]
    assert plan.count == [311, 313]


def test_the_steps_of_a_launch_are_one_graph(plan):
    numbers = [s.graph for s in plan.steps]
    inside = [i for i, n in enumerate(numbers) if n == 1]
    assert inside == list(range(inside[0], inside[-1] + 1))
    products = Counter(s.op for s in plan.steps if isinstance(s, Call) and s.graph)
    assert products["aten::mm"] == 7 * 16 + 1  # seven to a layer, and the head


def test_weights_lie_as_they_did(plan):
    """Strides are part of the capture: a product with a transposed weight is another kernel."""
    views = {v[0]: v for e in plan.externals for v in e.views}
    products = [s for s in plan.steps if isinstance(s, Call) and s.op == "aten::mm"]
    strides = [views[p.args[1]["slot"]][3] for p in products]
    assert all(s[0] == 1 for s in strides)
