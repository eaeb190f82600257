"""How long a trace takes if read plainly, piece by piece."""

from chakrakit import TraceBuilder
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.validation.check import PlainReading


def read(*pieces):
    reading = PlainReading()
    for piece in pieces:
        reading.add(piece)
    return reading.finish()


def test_an_edge_that_only_orders_starts_is_read_as_one_that_orders_ends():
    """Host 0–10 launches a kernel 2–12: own span 12, read plainly 20."""
    t = TraceBuilder()
    host = t.comp("launch", start_time_ns=0, duration_ns=10)
    kernel = t.comp("kernel", start_time_ns=2, duration_ns=10)
    t.edge(host, kernel, EdgeKind.LAUNCH)
    assert read(t.build()) == (12, 20)


def test_dependencies_reach_across_pieces():
    t = TraceBuilder()
    a = t.comp("a", start_time_ns=0, duration_ns=5)
    t.comp("b", start_time_ns=5, duration_ns=7, deps=[a])
    whole = t.build()
    pieces = [whole.select([0]), whole.select([1])]
    assert read(whole) == (12, 12)
    assert read(*pieces) == (12, 7)  # a piece that lost its dependency starts at once


def test_without_times_or_nodes_nothing_is_known():
    t = TraceBuilder()
    t.comp("a", duration_ns=5)
    assert read(t.build()) is None
    assert read() is None
