"""Where nodes belong: their own text, else that of what launched them."""

import numpy as np
import pytest

from chakrakit import TraceBuilder
from chakrakit.errors import ConfigError
from chakrakit.passes.base import coded, texts_of
from chakrakit.passes.base.nodes import begin_to_match, modules_of, where
from chakrakit.trace.model import EdgeKind


def launched(**kernel):
    t = TraceBuilder()
    host = t.comp("aten::mm", is_cpu_op=True, module="model.layers.0", phase="forward")
    t.edge(host, t.comp("gemm", **kernel), EdgeKind.LAUNCH)
    return t.build()


def test_a_kernel_belongs_where_its_launcher_does():
    assert texts_of(launched(), "phase").tolist() == ["forward", "forward"]


def test_what_a_kernel_says_itself_counts():
    assert texts_of(launched(phase="backward"), "phase").tolist() == ["forward", "backward"]


def test_a_column_that_is_not_there_is_empty():
    assert texts_of(launched(), "no_such").tolist() == ["", ""]


def test_a_generated_nodes_module_is_what_its_name_begins_with():
    t = TraceBuilder()
    t.comp("layers.0.attention.qkv", op_type="matmul")
    t.comp("aten::add")
    assert modules_of(t.build()).tolist() == ["layers.0.attention", ""]


def test_each_distinct_text_is_asked_once():
    asked = []
    texts = np.array(["a", "b", "a"], object)
    assert where(texts, lambda t: asked.append(t) or t == "a").tolist() == [True, False, True]
    assert asked == ["a", "b"]
    assert coded(texts)[1].tolist() == [0, 1, 0]


def test_expressions_match_from_the_begin_and_empty_texts_never():
    texts = ["mm", "addmm", ""]
    assert begin_to_match(texts, ["mm", "x"], "names") == [True, False, False]
    assert begin_to_match(texts, [".*"], "names") == [True, True, False]


def test_an_expression_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="names: not a regular expression"):
        begin_to_match(["a"], ["("], "names")
