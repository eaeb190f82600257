"""From a workload to its traces: training and inference by the step's kind, on all ranks."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import generate, generated
from chakrakit.workloads.generate.serving import InferencePrograms

SMALL = Decoder(layers=2, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)


def test_the_kind_of_step_says_which_programs_there_are() -> None:
    train = generated(Workload(model=SMALL, step=Step(seq=16)))
    served = generated(Workload(model=SMALL, step=Step(kind="prefill", seq=16)))
    assert not isinstance(train, InferencePrograms)
    assert isinstance(served, InferencePrograms)
    assert (train.tokens, served.tokens) == (16, 16)


def test_every_rank_has_a_program_and_replicas_share_it() -> None:
    step = Step(seq=16, global_batch=4)
    traces = generate(Workload(model=SMALL, plan=Plan(dp=4, pp=2), step=step))
    assert traces.ranks == tuple(range(8))
    assert traces.body_count == 2  # one per stage
    assert traces.card.tool == "chakra generate"
    assert traces.card.settings["plan"]["pp"] == 2


def test_a_plan_that_does_not_fit_its_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="heads"):
        generated(Workload(model=SMALL, plan=Plan(tp=3), step=Step(seq=18)))
