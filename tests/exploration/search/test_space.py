"""What a search chooses from."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.search import search as search_plans
from chakrakit.exploration.search import space_of, workloads
from chakrakit.exploration.search.space import Space, refusals, workload_of
from chakrakit.workloads.description import Decoder, Step
from chakrakit.workloads.models import model_named

MODEL = Decoder(name="m", layers=4, hidden=64, heads=4, vocab=100)
STEP = Step(seq=128, global_batch=8)


def test_degrees_divide_the_devices_and_fit_the_model():
    space = space_of(MODEL, [8], STEP, {})
    assert (space.tp, space.pp, space.cp, space.ep) == ([1, 2, 4], [1, 2, 4], [1], [1])
    assert space.micro_batch == [1, 2, 4, 8]


def test_micro_batches_divide_the_batch():
    """56 sequences on eight devices are seven a device: in one micro-batch, or in seven."""
    assert space_of(MODEL, [8], Step(seq=128, global_batch=56), {}).micro_batch == [1, 2, 4, 7, 8]


def test_a_search_without_a_plan_says_why():
    """Seven devices divide neither four heads nor a batch of one, and there are four layers."""
    step = Step(seq=128, global_batch=1)
    reasons = refusals(space_of(MODEL, [7], step, {}), MODEL, step)
    assert any("global_batch" in reason for reason in reasons)
    with pytest.raises(ConfigError, match=r"no plan is feasible: .*global_batch"):
        search_plans(MODEL, step, [7], "dgx-h100")


@pytest.mark.parametrize(
    ("gpus", "data"), [([1], ["ddp"]), ([2], ["zero1", "fsdp"]), ([1, 2], ["zero1", "fsdp"])]
)
def test_one_device_has_nothing_to_shard_over(gpus, data):
    assert space_of(MODEL, gpus, STEP, {}).data == data


def test_long_sequences_may_be_cut_and_experts_spread():
    mixed = Decoder(name="m", layers=4, hidden=64, heads=4, vocab=100, experts=4, top_k=2)
    space = space_of(mixed, [8], Step(seq=16384, global_batch=8), {})
    assert (space.cp, space.ep) == ([1, 2, 4, 8], [1, 2, 4])


def test_what_is_given_is_taken_as_it_is():
    space = space_of(MODEL, [8], STEP, {"tp": [2], "recompute": ["none"], "pp": []})
    assert (space.tp, space.recompute, space.pp) == ([2], ["none"], [1, 2, 4])
    assert space.size == 1 * 1 * 3 * 1 * 1 * 4 * 2 * 1 * 4


def test_an_axis_without_a_value_is_refused():
    with pytest.raises(ConfigError, match="tp has no value to choose from"):
        space_of(Decoder(name="m", layers=4, hidden=64, heads=0, vocab=9), [8], STEP, {})


FEW = {"micro_batch": [1], "recompute": ["none"]}


def test_every_plan_comes_once():
    space = space_of(MODEL, [4], STEP, FEW)
    found = [w.plan for w in workloads(space, MODEL, STEP)]
    assert len({repr(p) for p in found}) == len(found)
    assert all(p.dp * p.tp * p.pp == 4 for p in found)
    assert {p.schedule for p in found if p.pp == 1} == {"1f1b"}


def test_a_combination_that_cannot_be_is_none():
    space = space_of(MODEL, [8], STEP, FEW)
    choice = {name: values[0] for name, values in space.axes().items()}
    assert workload_of(choice, space, MODEL, STEP).plan.dp == 8
    assert workload_of(choice | {"tp": 3}, space, MODEL, STEP) is None
    other = {"schedule": "interleaved/2"}
    assert workload_of(choice | other, space, MODEL, STEP) is None  # pp 1 has one schedule
    assert workload_of(choice | other | {"pp": 2}, space, MODEL, STEP).plan.chunks == 2


def test_the_space_has_every_axis_that_makes_sense() -> None:
    model, step = model_named("llama3.1-8b").replace(layers=2), Step(seq=1024, global_batch=8)
    space = space_of(model, [8], step, {})
    assert space == Space(
        gpus=[8],
        tp=[1, 2, 4, 8],
        pp=[1, 2],
        cp=[1],
        ep=[1],
        micro_batch=[1, 2, 4, 8],
        data=["zero1", "fsdp"],
        recompute=["none", "selective", "full"],
        schedule=["1f1b", "interleaved/2", "interleaved/4", "zb-h1"],
    )
    plans = list(workloads(space, model, step))
    assert len({(str(w.plan), w.step.micro_batch) for w in plans}) == len(plans)
