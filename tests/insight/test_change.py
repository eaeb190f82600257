"""Why requests take longer: parts by phase and by cause, which both sum to the change."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.insight import ServingFacts
from chakrakit.insight.served_requests import serving_change, serving_facts
from support.served import served


def facts(slower: float = 1.0) -> ServingFacts:
    facts = serving_facts(served(slower))
    assert facts is not None
    return facts


def test_slower_steps_with_the_same_batches_are_told_as_such() -> None:
    change = serving_change(facts(), facts(2))
    assert change is not None
    assert (change.a_ms, change.b_ms) == (30, 60)
    assert change.parts == {"queued": 5, "prompt": 10, "output": 15}
    assert [(p.what, round(p.delta_ms, 6)) for p in change.explained] == [
        ("output: slower steps with the same batch", 15),
        ("prompt: slower steps with the same batch", 10),
        ("waiting in the queue", 5),
    ]
    assert change.sentence == (
        "B takes 30.0 ms longer, most of all: output: slower steps with the same batch"
    )


def test_larger_batches_are_told_at_the_speed_of_the_first_run() -> None:
    """Two more decodes in an output's steps at 3 ms each explain 6 of 8 ms.

    The other 2 are slower steps only where B's own steps say so: 0.4 ms for each of 5 decodes.
    """
    a = msgspec.structs.replace(
        facts(), step_model={"steps": 0.0, "decodes": 3.0, "prompt tokens": 0.0, "context": 0.0}
    )
    output = msgspec.structs.replace(
        a.output, steps_ms=a.output.steps_ms + 8, features=a.output.features | {"decodes": 5.0}
    )
    b = msgspec.structs.replace(a, output=output)
    same = serving_change(a, b)
    assert same is not None
    assert [(p.what, p.delta_ms) for p in same.explained] == [
        ("output: more requests in its steps", 6),
        ("output: not explained by what its steps hold", 2),
    ]
    slower = serving_change(
        a, msgspec.structs.replace(b, step_model=a.step_model | {"decodes": 3.4})
    )
    assert slower is not None
    of_output = [(p.what, p.delta_ms) for p in slower.explained if p.what.startswith("output")]
    assert of_output == [
        ("output: more requests in its steps", 6),
        ("output: slower steps with the same batch", pytest.approx(2)),
    ]


def test_what_requests_wait_for_is_named_where_waiting_explains_most() -> None:
    a = facts()
    longer = msgspec.structs.replace(a.e2e_ms, mean=a.e2e_ms.mean + 50)
    b = msgspec.structs.replace(a, e2e_ms=longer, parts=a.parts | {"queued": 55.0})
    change = serving_change(a, b)
    assert change is not None
    assert change.sentence.startswith(
        "B takes 50.0 ms longer, most of all: waiting in the queue (for "
    )
    assert change.figures["engines"] == (1, 1)
    assert change.tables()[0].rows == [("waiting in the queue", 50.0, 100.0)]


def test_equal_runs_do_not_differ_and_other_runs_are_not_compared() -> None:
    same = serving_change(facts(), facts())
    assert same is not None
    assert (same.explained, same.sentence) == ([], "no difference")
    assert serving_change(facts(), None) is None
