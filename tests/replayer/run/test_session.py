"""`replay`: a trace compiled for every rank, and the result of a folder that was run."""

from __future__ import annotations

import sys

import pytest

import chakrakit as ck
from chakrakit.errors import MissingExtra, TraceError
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run import session
from chakrakit.replayer.run.session import ReplayFailed, prepare, replay, run_folder


def traces(ranks=2):
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 8, deps=[t.comp("a", duration_ns=5)])
    groups = ck.Groups({"0": range(ranks)})
    return ck.TraceSet([t.build()] * ranks, groups=groups).with_card(ck.Card(name="mine"))


def test_every_rank_has_a_plan_of_its_own():
    made = prepare(traces(), ReplayOptions(mode="comm", nproc=3))
    assert [(p.rank, p.recorded_rank, p.world) for p in made.plans] == [
        (0, 0, 3),
        (1, 1, 3),
        (2, 0, 3),
    ]
    assert made.traces.ranks == (0, 1, 2)
    assert (made.traces.card.name, made.traces.card.tool) == ("mine", "chakra replay")
    assert len(made.original) == 2


def test_what_waits_for_itself_is_refused():
    t = ck.TraceBuilder()
    a = t.comp("a", duration_ns=5)
    b = t.comp("b", duration_ns=5, deps=[a])
    t.edge(b, a)
    with pytest.raises(TraceError, match="waits for itself, over 2 nodes; chakra validate --fix"):
        prepare(ck.TraceSet([t.build()]), ReplayOptions(mode="emulate"))


def test_without_pytorch_the_cure_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r"chakrakit\[torch\]"):
        replay(str(tmp_path), ReplayOptions())


def test_what_the_runner_says_of_an_error_becomes_one():
    run_folder([sys.executable, "-S", "-c", ""])
    words = "import sys; sys.stderr.write('error: the plan is odd\\n'); sys.exit(2)"
    with pytest.raises(ReplayFailed, match="the plan is odd"):
        run_folder([sys.executable, "-S", "-c", words])
