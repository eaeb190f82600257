"""Faults replace what an actor sends, receives or computes, and a broadcast stands as many as it should."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.simulator import live
from chakrakit.simulator.engine import Fault
from chakrakit.simulator.live.places import moment

SWITCH = {"network": [{"topology": "switch", "size": 4, "bandwidth": 1e9, "latency": 5e-7}]}


def heard(*faults: Any, **options: Any) -> list[tuple[float, object]]:
    """When and what a listener hears of "a", "b" and "c", sent every 100 ns."""
    said: list[tuple[float, object]] = []

    def hears(me):
        while True:
            (message,) = yield live.receive()
            said.append((me.now, message.body))

    def says(me):
        for word in "abc":
            yield live.compute(100)
            yield live.send("hears", 0, word)

    world = live.World(SWITCH, **options)
    world.actor(hears, name="hears", daemon=True)
    world.actor(says, rank=1, name="says", faults=faults)
    world.run()
    return said


def test_each_strategy_changes_one_thing() -> None:
    assert heard() == [(1100.0, "a"), (1200.0, "b"), (1300.0, "c")]
    assert heard(live.Delay(50)) == [(1150.0, "a"), (1250.0, "b"), (1350.0, "c")]
    assert heard(live.Slow(3)) == [(1300.0, "a"), (1600.0, "b"), (1900.0, "c")]
    assert heard(live.Silent()) == []
    assert heard(live.Equivocate(lambda to, body: (to, body)))[0] == (1100.0, (0, "a"))
    assert heard(live.Crash(150)) == [(1100.0, "a")]
    assert heard(live.Crash(150, until_ns=1000))[1:] == [
        (2100.0, "a"),
        (2200.0, "b"),
        (2300.0, "c"),
    ]
    assert 0 < len(heard(live.Drop(0.5), seed=3)) < 3


def test_strategies_compose_in_order() -> None:
    assert heard(live.Slow(2), live.Delay(7), live.Delay(3))[0] == (1210.0, "a")


def test_a_link_that_fails_holds_messages_until_it_is_back() -> None:
    broken = [
        Fault("link", (1, "switch 0.0"), 0.0, 0.0),
        Fault("link", (1, "switch 0.0"), 5e3, 1.0),
    ]
    ends = []

    def says(me):
        yield live.send("hears", 1000)

    def hears(me):
        yield live.receive()
        ends.append(me.now)

    world = live.World(SWITCH, faults=broken)
    world.actor(says, rank=1)
    world.actor(hears, name="hears")
    world.run()
    assert ends == [6000.0]


def test_the_run_says_what_was_faulty() -> None:
    def says(me):
        yield live.compute(10)
        yield live.send("hears", 8, "x")

    def hears(me):
        yield live.receive()

    world = live.World(SWITCH)
    world.actor(says, rank=1, name="says", faults=[live.Slow(2), live.Delay(5)])
    world.actor(hears, name="hears")
    result = world.run()
    labels = result.run().trace(0).column("fault", "").tolist()
    assert labels == ["slow", "delay"]
    assert result.summary.faults == ["slow", "delay"]


# --- Bracha's reliable broadcast ----------------------------------------------------------------


def bracha(me, n, f, size, delivered):
    votes: dict[str, dict[object, set[int]]] = {"echo": {}, "ready": {}}
    said: set[str] = set()

    def tell(kind, value, bytes):
        said.add(kind)
        yield live.all_of(*(live.send(peer, bytes, (kind, value)) for peer in range(n)))

    if me.number == 0:
        yield from tell("init", "value", size)
    while me.number not in delivered:
        (message,) = yield live.receive()
        kind, value = message.body
        if kind == "init":
            if "echo" not in said:
                yield from tell("echo", value, size)
            continue
        voters = votes[kind].setdefault(value, set())
        voters.add(message.sender.number)
        enough = len(votes["echo"].get(value, ())) > (n + f) // 2
        if "ready" not in said and (enough or len(votes["ready"].get(value, ())) > f):
            yield from tell("ready", value, 32)
        if len(votes["ready"].get(value, ())) > 2 * f:
            delivered[me.number] = value


def broadcast(n: int, silent: int, forge: Any = None) -> tuple[dict[int, object], live.LiveSummary]:
    site = {"network": [{"topology": "switch", "size": n, "bandwidth": 1e9, "latency": 1e-3}]}
    delivered: dict[int, object] = {}
    world = live.World(site)
    for number in range(n):
        faults = [live.Silent()] if number >= n - silent else []
        if number == 0 and forge is not None:
            faults = [live.Equivocate(forge)]
        args = (n, (n - 1) // 3, 1000, delivered)
        world.actor(bracha, *args, rank=number, faults=faults, daemon=True)
    summary = world.run().summary
    return {k: v for k, v in delivered.items() if k < n - silent}, summary


@pytest.mark.parametrize("f", range(1, 11))
def test_bracha_delivers_with_f_silent_nodes_and_not_with_one_more(f: int) -> None:
    n = 3 * f + 1
    for silent in range(f + 1):
        assert broadcast(n, silent)[0] == dict.fromkeys(range(n - silent), "value")
    assert broadcast(n, f + 1)[0] == {}


@pytest.mark.parametrize("n", [4, 7, 31])
def test_brachas_bytes_are_those_of_the_closed_form(n: int) -> None:
    summary = broadcast(n, 0)[1]
    assert summary.message_bytes == n * 1000 + n * n * 1000 + n * n * 32
    assert summary.messages == n + 2 * n * n


def test_no_two_nodes_deliver_differently_when_the_sender_equivocates() -> None:
    for halves in (2, 3, 5):
        delivered, _ = broadcast(7, 0, lambda to, body, k=halves: (body[0], f"v{to % k}"))
        assert len(set(delivered.values())) <= 1


def test_moments_are_told_in_the_largest_unit_they_fill():
    told = {
        10**12: "1 s",
        10**12 - 10**9: "999 ms",
        10**9: "1 ms",
        10**6: "1 us",
        999_000: "999 ns",
    }
    assert {ps: moment(ps) for ps in told} == told


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_may_be_nothing_or_all(share):
    assert live.Drop(share).share == share
