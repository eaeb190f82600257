"""Which nodes are meant: all given lists together, and words that mean no node are refused."""

import pytest

from chakrakit import Binding, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.base import NodeSelection


@pytest.fixture
def trace():
    t = TraceBuilder()
    t.comp("layers.0.qkv", op_type="matmul", phase="forward", step=0)
    t.comp("layers.0.norm", op_type="vector", phase="forward", step=0)
    t.comp("layers.1.qkv", op_type="matmul", phase="backward", step=1)
    return t.build()


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, [0, 1, 2]),
        ({"names": (r"layers\.\d\.qkv",)}, [0, 2]),
        ({"phases": ("backward",)}, [2]),
        ({"steps": (0,)}, [0, 1]),
        ({"classes": ("gemm",)}, [0, 2]),
        ({"classes": ("compute",)}, [0, 1, 2]),
        ({"modules": (r"layers\.0",), "classes": ("elementwise",)}, [1]),
        ({"phases": ("forward",), "steps": (1,)}, []),
    ],
)
def test_rows_that_every_given_list_means(trace, fields, rows):
    assert NodeSelection(**fields).rows(trace).nonzero()[0].tolist() == rows


def test_nodes_are_meant_by_id(trace):
    assert NodeSelection(nodes=(int(trace.ids[1]),)).rows(trace).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"phases": ("forwrd",)}, "phases: no node has 'forwrd'; did you mean 'forward'"),
        ({"steps": (7,)}, "steps: no node has 7; there are 0, 1"),
        ({"names": ("layers", "mm")}, "names: no node has 'mm'"),
        ({"nodes": (99,)}, "nodes: no node has 99"),
    ],
)
def test_a_word_that_means_no_node_is_refused_with_the_nearest(trace, fields, problem):
    with pytest.raises(ConfigError, match=problem):
        NodeSelection(**fields).refuse_absent(TraceSet([trace], {0: Binding(0)}))


def test_a_word_that_any_body_knows_is_not_refused(trace):
    other = TraceBuilder()
    other.comp("x", phase="optimizer")
    both = TraceSet([trace, other.build()], {0: Binding(0), 1: Binding(1)})
    NodeSelection(phases=("optimizer", "forward")).refuse_absent(both)
