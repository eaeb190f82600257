"""How engines are laid out."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving import EngineLayout
from chakrakit.serving.plan import serving_step
from chakrakit.workloads.models import model_named

DENSE, SPARSE = model_named("llama-3.1-8b"), model_named("mixtral-8x7b")


def test_ranks_step_together_only_where_there_are_experts():
    layout = EngineLayout(tp=2, dp=4)
    assert (layout.plan(2, DENSE).dp, layout.plan(2, SPARSE).dp) == (1, 4)


def test_one_engine_on_one_device_is_what_nobody_asked_otherwise():
    layout = EngineLayout()
    layout.check()
    assert (layout.tp, layout.pp, layout.dp, layout.ep, layout.replicas) == (1, 1, 1, 1, 1)
    assert (layout.prefill, layout.decode, layout.prefill_tp, layout.decode_tp) == (0, 0, 0, 0)
    assert not layout.apart
    EngineLayout(replicas=2).check()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tp": 0}, "--tp 0: give 1 or more"),
        ({"prefill": 2}, "prefill and decode engines come together"),
        ({"prefill": 1, "decode": 1, "replicas": 2}, "--replicas goes without --prefill"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(fields, problem):
    with pytest.raises(ConfigError, match=problem):
        EngineLayout(**fields).check()


def test_experts_need_data_ranks_and_heads_need_to_be_divided():
    with pytest.raises(ConfigError, match="--ep 2 needs a model with experts"):
        EngineLayout(ep=2, dp=2).plan(1, DENSE)
    with pytest.raises(ConfigError, match="and dp is 3"):
        EngineLayout(ep=2, dp=3).plan(1, SPARSE)
    with pytest.raises(ConfigError, match="--tp 3 does not divide the 32 heads"):
        EngineLayout().plan(3, DENSE)


def test_quantized_matmuls_are_recorded_in_eight_bits():
    assert serving_step("bf16", "fp4").matmul_dtype == "fp8"
    assert serving_step("bf16").matmul_dtype == ""
    with pytest.raises(ConfigError, match="give bf16, fp16 or fp32"):
        serving_step("int4")
