"""What is compiled runs as it is, and is known to be compiled."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.standins import compiler


@pytest.fixture(autouse=True)
def installed(patches, recorder):
    compiler.install(patches, recorder, recorder.where)


def test_a_compiled_model_is_the_model_and_that_is_said(patches, recorder):
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model, mode="max-autotune") is model
    model.compile()
    assert recorder.where.compiled_modules == {id(model)}
    rule, graphs = patches.warnings
    assert rule.startswith("torch.compile: kernels are those of a rule of fusion")
    assert "--pass graphed" in graphs


def test_a_compiled_function_gives_what_it_gave_as_one_call(recorder):
    calls = []

    @torch.compile(dynamic=True)
    def double(x):
        calls.append(recorder.where.compiled)
        assert torch.compiler.is_compiling()
        return 2 * x

    assert [double(3), double(4)] == [6, 8]
    assert (calls, recorder.where.compiled) == ([0, 1], -1)
    assert not torch.compiler.is_compiling()


def test_what_is_not_compiled_is_left_alone(patches, recorder):
    assert torch.compile(len, backend="aot_eager") is len
    assert torch.compile(len, disable=True) is len
    assert not patches.warnings
