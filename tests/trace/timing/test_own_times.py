"""Waiting for another row's end is no work of a row."""

import numpy as np

import chakrakit as ck
from chakrakit import EdgeForm, EdgeKind, TraceBuilder, TraceSet
from chakrakit.trace.timing import held_back


def synchronized() -> TraceSet:
    """A kernel of 50 µs, and a host row of 2 µs that ends no earlier than it."""
    t = TraceBuilder()
    kernel = t.comp("kernel", stream=7, duration_ns=50_000)
    wait = t.comp("wait", is_cpu_op=True, tid=1, duration_ns=2_000)
    t.edge(kernel, wait, EdgeKind.SYNC, form=EdgeForm.FINISH_FINISH)
    t.comp("later", is_cpu_op=True, tid=1, duration_ns=3_000, deps=[wait])
    return TraceSet([t.build()])


def test_a_row_that_ended_with_another_was_held_back():
    run = ck.simulate(synchronized(), "dgx-h100").run()
    start, end = (np.asarray(x) * run.tick_ps // 1000 for x in (run.start(0), run.end(0)))
    assert held_back(run.trace(0), start, end).tolist() == [False, True, False]


def test_its_time_in_a_run_is_waiting_and_not_work():
    run = ck.simulate(synchronized(), "dgx-h100").run()
    assert run.timed_trace(0).duration_ns.tolist() == [50_000, 50_000, 3_000]
    assert run.timed_trace(0).own_ns.tolist() == [50_000, 2_000, 3_000]
    saved = {g.what: g.saved_ns for g in ck.analyze(run).what_if.gains}
    assert saved == {"compute": 25_000, "host": 1_500}
