"""A result as a Run: the workload with every node's times."""

from __future__ import annotations

from chakrakit import Binding, Groups, TraceBuilder, TraceSet
from chakrakit.simulator.astra import AstraOptions, make_config, simulate, to_run
from support.astra_cases import network, system

CONFIG = make_config(system(), network(("Ring", 2)), {}, {"5": [0, 1]})


def chain(micros: int):
    """Node 0 runs before node 1, and stands after it in the file."""
    t = TraceBuilder()
    first = t.comp("first", duration_ns=1000 * micros)
    t.comp("second", duration_ns=2000, deps=[first])
    return t.build().select([1, 0])


def test_times_are_in_the_order_of_the_file() -> None:
    traces = TraceSet([chain(1), chain(4)])
    run = to_run(simulate(traces, CONFIG), traces)
    assert run.tick_ps == 1000
    assert [run.start(r).tolist() for r in (0, 1)] == [[1000, 0], [4000, 0]]
    assert [run.end(r).tolist() for r in (0, 1)] == [[3000, 1000], [6000, 4000]]


def test_the_card_and_groups_say_how_it_was_run() -> None:
    alike = {0: Binding(0), 1: Binding(0)}
    traces = TraceSet([chain(1)], alike, Groups({"7": (0, 1)}))
    run = to_run(simulate(traces, CONFIG, AstraOptions(queues=2)), traces)
    assert (run.card.settings["engine"], run.card.settings["queues"]) == ("astra", 2)
    assert run.card.settings["classes"] == 1
    assert dict(run.groups) == {"5": (0, 1), "7": (0, 1)}
    assert set(run.timing.values()) == {0}
