"""The plain reading: every dependency is an end that a start waits for."""

from chakrakit import TraceBuilder
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import plain_span_ns


def test_forms_and_lags_do_not_count():
    """A launch that lets its kernel start at once is read as one that must end first."""
    t = TraceBuilder()
    launch = t.comp("launch", duration_ns=4)
    kernel = t.comp("kernel", duration_ns=10)
    t.edge(launch, kernel, EdgeKind.LAUNCH, lag_ns=100)
    assert plain_span_ns(t.build()) == 14


def test_the_longest_way_counts():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=3)
    b = t.comp("b", duration_ns=5, deps=[a])
    c = t.comp("c", duration_ns=7, deps=[a])
    t.comp("d", duration_ns=1, deps=[b, c])
    assert plain_span_ns(t.build()) == 11


def test_an_empty_trace_takes_no_time():
    assert plain_span_ns(TraceBuilder().build()) == 0
