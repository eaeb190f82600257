"""Classes of work: by operator, by what a generator says, by the names of others."""

import numpy as np

from chakrakit import CollectiveType, TraceBuilder
from chakrakit.passes.base import classes_of, is_compute, same_name
from chakrakit.trace.model import NodeType


def test_every_kind_of_node_has_its_class():
    t = TraceBuilder()
    t.comp("layers.0.qkv", op_type="matmul")
    t.comp("layers.0.norm", op_type="vector")
    t.comp("custom", op_type="lookup")
    t.comp("Memcpy DtoH", stream=7)
    t.comp("aten::mm", is_cpu_op=True)
    t.comp("mystery", stream=7)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8)
    t.node("load", NodeType.MEM_LOAD_NODE)
    t.node("process_group:init", NodeType.METADATA_NODE)
    classes = classes_of(t.build())
    assert classes.tolist() == [
        "gemm", "elementwise", "lookup", "copy", "host", "other", "communication", "copy", "none"
    ]  # fmt: skip
    assert is_compute(classes).tolist() == [True] * 3 + [False, False, True] + [False] * 3


def test_a_kernel_of_which_nothing_is_known_is_like_others_of_its_name():
    names = np.array(["a", "b", "a"], object)
    values = np.array(["other", "other", "gemm"], object)
    known = np.array([False, False, True])
    assert same_name(names, values, known).tolist() == ["gemm", "other", "gemm"]
