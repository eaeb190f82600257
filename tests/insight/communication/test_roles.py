"""Groups are called by what they are for, where the plan says it."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.insight import analyze, compare
from chakrakit.insight.communication import group_roles


@pytest.fixture(scope="module")
def runs():
    plan = {"dp": 2, "tp": 2, "pp": 2, "seq": 256, "global_batch": 4, "micro_batch": 1}
    traces = ck.generate(model="llama-3.2-1b", layers=2, **plan).traces
    return [ck.simulate(traces, machine).run() for machine in ("dgx-h100", "dgx-a100")]


def test_roles_are_the_dimensions_in_which_members_differ(runs):
    run = runs[0]
    roles = group_roles(run)
    by_members = {tuple(run.groups[name]): role for name, role in roles.items()}
    assert by_members[0, 1] == "tp"
    assert by_members[0, 2] == "dp"
    assert by_members[0, 1, 4, 5] == "tp+pp"


def test_a_table_and_a_comparison_name_roles_and_fold_their_groups(runs):
    table = analyze(runs[0]).communication.table()
    named = {str(row[1]) for row in table.rows if row[0] not in ("SEND", "RECV", "message")}
    assert {"tp", "dp"} <= named
    assert not any(name.isdigit() for name in named)
    comparison = compare(*runs)
    texts = [part.what for part in comparison.explained]
    assert any(text.endswith(" tp") for text in texts)
    assert len(texts) == len(set(texts))
    assert sum(part.delta_ns for part in comparison.explained) == comparison.step.delta_ns


@pytest.mark.parametrize("plan", [None, {}, {"order": 3}, {"order": "tp-dp", "tp": 3, "dp": 3}])
def test_a_card_without_a_fitting_plan_has_no_roles(runs, plan):
    card = runs[0].card.replace(settings={"plan": plan})
    assert group_roles(runs[0].with_card(card)) == {}
