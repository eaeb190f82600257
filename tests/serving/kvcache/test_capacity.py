"""How many blocks of keys and values fit, with the arithmetic."""

import msgspec
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.serving import EngineLayout
from chakrakit.serving.engine import engine_from
from chakrakit.serving.kvcache import Capacity, capacity_of
from chakrakit.serving.plan import serving_step
from chakrakit.serving.steps import StepOperators
from chakrakit.workloads.models import model_named

MODEL = model_named("llama-3.1-8b")
DEVICE = ck.load_machine("dgx-h100").device(0)
OPERATORS = StepOperators(MODEL, EngineLayout().plan(1, MODEL), serving_step("bf16"), False)


def capacity(engine="vllm", device=DEVICE, **more):
    return capacity_of(engine_from(engine), OPERATORS, device, **more)


def test_a_token_takes_keys_and_values_of_every_layer():
    """32 layers, 8 heads of 128, keys and values, two bytes each."""
    assert capacity().bytes_per_token == 32 * 8 * 128 * 2 * 2
    assert capacity("vllm{kv_cache_dtype=fp8}").bytes_per_token == 32 * 8 * 128 * 2


def test_a_cache_may_be_narrower_than_the_model():
    """Keys and values of two bytes beside weights of four."""
    step = serving_step("fp32")
    operators = StepOperators(MODEL, EngineLayout().plan(1, MODEL), step, False)
    engine = engine_from("vllm{kv_cache_dtype=bfloat16}")
    assert capacity_of(engine, operators, DEVICE).bytes_per_token == 32 * 8 * 128 * 2 * 2


def test_what_is_left_of_memory_is_cut_into_blocks():
    found = capacity()
    assert found.cache_bytes == pytest.approx(
        found.memory * found.share - found.weights - found.activations - found.reserve
    )
    assert found.blocks == int(found.cache_bytes // (found.bytes_per_token * 16))
    assert found.tokens == found.blocks * 16
    assert f"{found.weights / 1e9:.1f} GB of weights" in found.explained()


def test_blocks_that_are_given_count():
    found = capacity(kv_blocks=500)
    assert (found.blocks, found.fixed) == (500, True)
    assert found.explained() == "500 blocks of 16 tokens, as given"
    assert capacity("vllm{num_gpu_blocks_override=7}").blocks == 7


@pytest.mark.parametrize(
    ("engine", "more", "problem"),
    [
        ("vllm{num_gpu_blocks_override=7}", {"kv_blocks": 5}, "--kv-blocks 5 against 7 blocks"),
        ("vllm", {"kv_blocks": 0}, "--kv-blocks 0: give 1 to"),
        ("vllm{gpu_memory_utilization=0.1}", {}, "no room for a cache: 85.0 GB of memory"),
        ("vllm", {"device": msgspec.structs.replace(DEVICE, memory=0.0)}, "has no memory size"),
    ],
)
def test_a_cache_that_cannot_be_is_refused_with_the_arithmetic(engine, more, problem):
    with pytest.raises(ConfigError, match=problem):
        capacity(engine, **more)


def test_tokens_are_those_of_all_blocks():
    assert Capacity(blocks=3, block_size=16, bytes_per_token=1).tokens == 48
