"""Workloads from files and dictionaries, with models by name."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.models import from_plain, model_named, read_workload


def test_a_description_is_a_model_a_plan_and_a_step(tmp_path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("model: mixtral-8x7b\nplan: {dp: 4, ep: 4}\nstep: {seq: 64, global_batch: 4}\n")
    assert read_workload(file) == Workload(
        model=model_named("mixtral-8x7b"), plan=Plan(dp=4, ep=4), step=Step(seq=64, global_batch=4)
    )


def test_descriptions_say_where_they_are_wrong(tmp_path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("model: llama3.1-8b\nplan: {tp: two}\n")
    with pytest.raises(ConfigError, match=r"Expected `int`, got `str` - at `\$\.plan\.tp`"):
        read_workload(file)
    file.write_text("model: llama3.1-8b\nplan: {tensor: 2}\n")
    with pytest.raises(ConfigError, match="unknown field `tensor`"):
        read_workload(file)
    file.write_text("model: {base: llama3.1-8b, layers: 2}\n")
    assert read_workload(file).model == model_named("llama3.1-8b").replace(layers=2)
    file.write_text("- a\n")
    with pytest.raises(ConfigError, match="should hold model, plan and step"):
        read_workload(file)


def test_a_training_step_has_a_micro_batch_for_every_replica_where_nothing_says_more() -> None:
    model = {"model": "llama3.1-8b"}
    assert (
        from_plain({**model, "plan": {"dp": 4}, "step": {"micro_batch": 2}}).step.global_batch == 8
    )
    told = from_plain({**model, "plan": {"dp": 4}, "step": {"global_batch": 16}})
    assert told.step.global_batch == 16
    assert (
        from_plain({**model, "plan": {"dp": 4}, "step": {"kind": "prefill"}}).step.global_batch == 1
    )
