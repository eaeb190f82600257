"""`replay`: a trace compiled, exported, run, and its result read back."""

from __future__ import annotations

import sys

import pytest

import chakrakit as ck
from chakrakit.errors import FormatError, TraceError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.session import ReplayFailed, finish, prepare, run_folder


def reduced(ranks=2):
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 64, deps=[t.comp("a", duration_ns=1_000)])
    return ck.TraceSet([t.build()] * ranks, groups=ck.Groups({"0": range(ranks)}))


def test_every_rank_of_the_replay_has_a_plan_and_the_step_it_comes_from():
    made = prepare(reduced(), ReplayOptions(mode="emulate", nproc=3))
    assert [(p.rank, p.recorded_rank, p.world) for p in made.plans] == [
        (0, 0, 3),
        (1, 1, 3),
        (2, 0, 3),
    ]
    assert (len(made.traces), len(made.original)) == (3, 2)
    assert made.traces.card.tool == "chakra replay"


def test_what_waits_for_itself_can_be_done_in_no_order():
    t = ck.TraceBuilder()
    a, b = t.comp("a"), t.comp("b")
    t.edge(a, b)
    t.edge(b, a)
    with pytest.raises(TraceError, match=r"waits for itself, over 2 nodes; chakra validate --fix"):
        prepare(ck.TraceSet([t.build()]), ReplayOptions(mode="comm"))


def test_a_folder_that_was_not_run_says_how_to(tmp_path):
    with pytest.raises(FormatError, match=r"has not been run; run python .*/run.py first"):
        finish(tmp_path, None)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "sys.stderr.write('error: no room\\nrank 1: error: no room\\n')",
            "no room; rank 1: no room",
        ),
        ("sys.stderr.write('Traceback\\nOops\\n')", "Traceback\nOops"),
        ("pass", "the replay ended with code 3"),
    ],
)
def test_what_the_runner_says_of_an_error_becomes_one(program, said):
    with pytest.raises(ReplayFailed) as error:
        run_folder([sys.executable, "-S", "-c", f"import sys; {program}; sys.exit(3)"])
    assert str(error.value) == said
