"""What a trace says of itself, as the fields of a workload's card."""

import chakrakit as ck
from chakrakit.trace.storage.cards import derived_card


def card_of(**card):
    t = ck.TraceBuilder()
    t.comp("mm", start_time_ns=5, duration_ns=10)
    return ck.TraceSet([t.build()], {0: ck.Binding(0), 1: ck.Binding(0)}, card=ck.Card(**card))


MODEL = {"name": "llama", "layers": 2, "heads": 4, "hidden": 64, "experts": 0}
STEP = {"kind": "train", "dtype": "bf16", "seq": 128, "global_batch": 8}


def test_what_was_asked_of_a_generator_is_known():
    found = derived_card(card_of(settings={"model": MODEL, "step": STEP}))
    model = found["workload"]["model"]
    assert (model["phase"], model["model_family"], model["precision"]) == (
        "training",
        "llama",
        "bf16",
    )
    assert model["model_arch"] == {"num_layers": 2, "num_heads": 4, "hidden_size": 64}


def test_ranks_tool_and_passes_are_always_known():
    found = derived_card(card_of(tool="me", passes=["edit{scale=2}"]))
    assert found["workload"]["hardware"]["xpu_spec"]["total_count"] == 2
    assert found["collection"] == {"tool": "me", "passes": ["edit{scale=2}"]}


def test_a_card_that_holds_something_else_is_not_believed():
    """Cards are files: a setting may be anything."""
    settings = {"model": MODEL | {"layers": "many", "heads": -1}, "step": STEP, "collector": 7}
    found = derived_card(card_of(settings=settings))
    assert found["workload"]["model"]["model_arch"] == {"hidden_size": 64}


def test_a_run_says_how_long_it_took():
    traces = card_of()
    run = ck.Run(traces.bodies, traces.bindings, traces.groups, traces.card)
    assert derived_card(run)["measured"] == {"makespan_ns": 10}
