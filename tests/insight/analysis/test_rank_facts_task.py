"""What an analysis takes from one rank: small sums always, large arrays only where they are wanted."""

from __future__ import annotations

import pickle

import numpy as np

import chakrakit as ck
from chakrakit.insight.gather import LargeParts, RankTask, rank_facts


def task(run: ck.Run, rank: int, large_parts: LargeParts = LargeParts()) -> RankTask:  # noqa: B008 - frozen
    binding = run.bindings[rank]
    body = run.reader_of(binding.body)
    return RankTask(rank, body, binding, run.times_of(rank), run.tick_ps, large_parts)


def test_every_section_has_its_part(two_ranks: ck.Run):
    facts = rank_facts(task(two_ranks, 1))
    assert (facts.busy.rank, facts.end.row, facts.end.time) == (1, 2, 55_000)
    assert facts.calls.calls.size.tolist() == [1 << 20]
    assert facts.lost == 0
    assert facts.memory is None  # the trace says nothing of memory
    assert facts.graph is not None


def test_what_is_as_large_as_the_rank_is_kept_only_where_it_is_wanted(two_ranks: ck.Run):
    plain = rank_facts(task(two_ranks, 0))
    assert (plain.events, plain.names) == (None, None)
    whole = rank_facts(task(two_ranks, 0, LargeParts(events=True, names=True)))
    assert whole.events is not None
    assert len(whole.events.start) == 3
    light = whole.light()
    assert (light.graph, light.events, light.names) == (None, None, None)
    assert light.busy == whole.busy


def test_a_task_travels_to_a_worker(two_ranks: ck.Run):
    unpickled = pickle.loads(pickle.dumps(task(two_ranks, 0)))
    assert rank_facts(unpickled).end == rank_facts(task(two_ranks, 0)).end
    assert unpickled.events().end.tolist() == [10_000, 50_000, 55_000]


def test_rows_without_times_are_counted():
    trace = ck.Trace.from_columns(
        {"name": ["ran", "did not"], "type": [4, 4], "stream": [1, 1], "duration_micros": [1, 0]}
    )
    times = ck.Times(np.array([0, -1]), np.array([1, -1]))
    run = ck.Run([trace], times=[times], timing={0: 0})
    assert rank_facts(task(run, 0)).lost == 1
