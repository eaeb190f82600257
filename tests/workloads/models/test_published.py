"""Named models have the parameters their makers published."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate.figures import parameters
from chakrakit.workloads.models import catalog, model_named
from support.forms import gpt_parameters

PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "deepseek-v3": 671_026_404_352,
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "dit-xl-2": 675_129_632 - 256 * 1152,  # positions are fixed, not learned
    "wan2.1-1.3b": 1_418_996_800,
    "wan2.1-14b": 14_288_491_584,
}

MEGATRON = {
    "1.7b": 1.7,
    "3.6b": 3.6,
    "7.5b": 7.5,
    "18.4b": 18.4,
    "39.1b": 39.1,
    "76.1b": 76.1,
    "145.6b": 145.6,
    "310.1b": 310.1,
    "529.6b": 529.6,
    "1008b": 1008.0,
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters(name: str, count: int) -> None:
    assert parameters(Workload(model=model_named(name)))[0] == count


@pytest.mark.parametrize(("name", "billions"), MEGATRON.items())
def test_megatron_sizes(name: str, billions: float) -> None:
    model = model_named(f"megatron-{name}")
    total, _ = parameters(Workload(model=model))
    final_norm = 2 * model.hidden  # the equation leaves it out
    expected = gpt_parameters(model.layers, model.hidden, model.vocab, model.positions)
    assert total - final_norm == round(expected)
    assert round(total / 1e9, 1) == billions


def test_active_parameters_of_experts() -> None:
    total, active = parameters(Workload(model=model_named("mixtral-8x7b")))
    assert total - active == 32 * 6 * 3 * 4096 * 14336  # six of eight experts a layer rest


def test_every_model_is_listed_by_the_name_it_has() -> None:
    assert all(model.name == name for name, model in catalog().items())
    assert {"gpt3-125m", "deepseek-v3", "vit-b-16", "wan2.1-14b", "dlrm-dcnv2"} <= set(catalog())


def test_heads_of_gpt3_are_as_wide_as_its_publication_says() -> None:
    """Brown et al. 2020, table 2.1, column d_head; 2.7B has 80."""
    wide = {
        "125m": 64,
        "350m": 64,
        "760m": 96,
        "1.3b": 128,
        "2.7b": 80,
        "6.7b": 128,
        "13b": 128,
        "175b": 128,
    }
    models = {size: model_named(f"gpt3-{size}") for size in wide}
    assert {size: m.hidden / m.heads for size, m in models.items()} == wide
