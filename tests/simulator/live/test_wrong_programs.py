"""Mistakes that people make in programs are named with actor, time and line, and with what to do."""

from __future__ import annotations

import math
from typing import Any

import pytest

from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.simulator import live

SWITCH = {"network": [{"topology": "switch", "size": 4, "bandwidth": 1e9, "latency": 5e-7}]}


def naps(ns: float) -> Any:
    yield live.sleep(ns)


def error_of(program: Any, *others: Any) -> str:
    world = live.World(SWITCH)
    world.actor(program, name="Ann")
    for rank, other in enumerate(others, 1):
        world.actor(other, rank=rank, name=other.__name__)
    with pytest.raises((ConfigError, DeadlockError)) as error:
        world.run()
    return str(error.value)


@pytest.mark.parametrize(
    ("yields", "what"),
    [
        (lambda: 5, "yields verbs such as sleep(…) or receive(…), not 5"),
        (lambda: naps(5), "`yield from`"),
        (lambda: [live.sleep(1)], "`all_of(*verbs)`"),
        (lambda: live.send("Anne", 1), "no actor named 'Anne'; did you mean 'Ann'?"),
        (lambda: live.send(4, 1), "no actor 4; give a name, an actor or a number from 0 to 0"),
        (lambda: live.send(None, 1), "no actor None"),
        (lambda: live.send(0, "4 MB"), "a message of '4 MB'; give a number of bytes"),
        (lambda: live.send(0, -1), "a message of -1 bytes"),
        (lambda: live.send(0, math.nan), "a message of nan bytes"),
        (lambda: live.sleep("1 ms"), "a sleep of '1 ms'; give a number of nanoseconds"),
        (lambda: live.sleep(math.inf), "a sleep of inf ns"),
        (lambda: live.compute(-5), "a computation of -5 ns"),
        (lambda: live.compute(flops=-5), "a computation of -5 FLOPs"),
        (lambda: live.compute(flops=5, dtype="fp7"), "no element type 'fp7'"),
        (lambda: live.receive("Bob"), "a receive of 'Bob'; give a function"),
        (lambda: live.receive(count=0), "a receive of 0 messages"),
        (lambda: live.receive(timeout=-1), "a timeout of -1 ns"),
        (lambda: live.load("disk", 1), "no storage"),
        (lambda: live.collective("all-reduce", 1, [0, 1]), "give a group"),  # type: ignore[arg-type]
        (lambda: live.use("gpus", 1), "a use of 'gpus'; give a pool"),  # type: ignore[arg-type]
        (lambda: live.play("trace.et"), "give a score"),  # type: ignore[arg-type]
        (lambda: live.spawn(naps), "give a running generator"),  # type: ignore[arg-type]
        (lambda: live.join("worker"), "give a generator function"),  # type: ignore[arg-type]
        (lambda: live.any_of(), "any_of needs something to wait for"),
        (lambda: live.all_of([live.sleep(1)]), "take verbs and generators"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_with_actor_time_and_line(yields: Any, what: str) -> None:
    def program(me):
        yield live.sleep(7)
        yield yields()

    error = error_of(program)
    assert what in error
    assert error.startswith("Ann at 7 ns (test_wrong_programs.py, line ")


@pytest.mark.parametrize("wrong", [-0.5, -1000, math.inf, math.nan])
def test_nobody_comes_before_the_beginning_or_after_the_end_of_time(wrong: float) -> None:
    world = live.World(SWITCH)
    with pytest.raises(ConfigError, match=f"a time of {wrong:g} ns; give 0 or more"):
        world.actor(naps, 5, at_ns=wrong)


def test_a_group_with_somebody_who_is_not_there_is_named_with_the_line_that_calls_it() -> None:
    world = live.World(SWITCH)
    group = world.group(["Ann", "Bob"])

    def program(me):
        yield live.collective("all-reduce", 8, group)

    world.actor(program, name="Ann")
    with pytest.raises(ConfigError, match=r"^Ann at 0 ns \(test_wrong_programs.py, line .* 'Bob'"):
        world.run()


def test_what_cannot_be_in_a_world_is_refused_before_it_runs() -> None:
    world = live.World(SWITCH)
    world.pool("gpus", 2)
    for wrong, what in (
        (lambda: world.pool("gpus"), "two pools named 'gpus'"),
        (lambda: world.pool("disks", 1.5), "whole and 1 or more"),
        (lambda: world.pool("disks", policy=object()), "give an object with `pick"),
        (lambda: world.actor(naps, rank=1.0), "rank 1.0"),
        (lambda: world.actor(naps, faults=live.Silent()), "give a list of strategies"),
        (lambda: world.actor(naps, faults=[live.Silent]), "give one such as live.Drop"),
        (lambda: live.Drop(5), "a share from 0 to 1"),
        (lambda: live.Slow(0), "a factor above 0"),
        (lambda: live.Delay(-2), "a time above 0 ns"),
        (lambda: live.Crash(50, 20), "until after it began"),
    ):
        with pytest.raises(ConfigError, match=what.replace("(", r"\(")):
            wrong()


def test_actors_and_pools_of_another_world_are_refused() -> None:
    other = live.World(SWITCH)
    stranger, pool = other.actor(lambda me: naps(5)), other.pool("gpus")

    def sends(me):
        yield live.send(stranger, 1)

    def uses(me):
        yield live.use(pool, 1)

    assert "no actor Actor(0, 'actor 0', rank 0)" in error_of(sends)
    assert "a pool of another world" in error_of(uses)


def test_a_policy_that_picks_neither_task_nor_place_is_named() -> None:
    class Numbers:
        def pick(self, tasks, places, now_ns):
            return 0, 0

    world = live.World(SWITCH)
    pool = world.pool("gpus", policy=Numbers())

    def uses(me):
        yield live.use(pool, 1)

    world.actor(uses)
    with pytest.raises(ConfigError, match=r"pool 'gpus': the policy picked \(0, 0\); give a pair"):
        world.run()


@pytest.mark.parametrize("spinning", [live.all_of, lambda: live.sleep(0)])
def test_a_program_that_spins_is_ended(spinning: Any) -> None:
    def spins(me):
        while True:
            yield spinning()

    world = live.World(SWITCH, record=False)
    world.actor(spins, name="Ann")
    with pytest.raises(ConfigError, match=r"Ann at 0 ns .* a million things without time passing"):
        world.run()


def test_a_stuck_run_shows_the_line_and_the_messages_that_did_not_match() -> None:
    def waits(me):
        yield live.receive(lambda m: m.body == "go", count=2)

    def says(me):
        yield live.send("Ann", 1, "gone")
        yield live.send("Ann", 1, "go")

    error = error_of(waits, says)
    assert "Ann waits since 0 ns to receive 2 messages, of which 1 came; 1 other lies" in error
    assert "the first from says with 'gone' (test_wrong_programs.py, line " in error


def test_a_stuck_run_names_programs_that_had_ended_when_messages_came() -> None:
    def asks(me):
        yield live.sleep(5)
        yield live.send("ends", 1, "are you there")
        yield live.receive()

    def ends(me):
        yield live.sleep(1)

    assert "Messages came after a program had ended: ends (1)." in error_of(asks, ends)


def test_philosophers_who_all_took_their_left_fork_are_named() -> None:
    def fork(me):
        while True:
            (asked,) = yield live.receive(lambda m: m.body == "take")
            yield live.send(asked.sender, 1, "yours")
            yield live.receive(lambda m, by=asked.sender: (m.sender, m.body) == (by, "put"))

    def philosopher(me, left, right):
        for one in (left, right):
            yield live.send(one, 1, "take")
            yield live.receive(lambda m, one=one: m.sender == one)
            yield live.sleep(live.MS)
        for one in (left, right):
            yield live.send(one, 1, "put")

    def table(seats):
        world = live.World(SWITCH)
        for i in range(4):
            world.actor(fork, rank=i, name=f"fork {i}", daemon=True)
        for i in range(4):
            forks = [f"fork {i}", f"fork {(i + 1) % 4}"]
            world.actor(philosopher, *seats(forks), rank=i, name=f"philosopher {i}")
        return world

    with pytest.raises(DeadlockError) as error:
        table(list).run()
    assert all(f"philosopher {i} waits since 1 ms" in str(error.value) for i in range(4))
    assert table(sorted).run().end_ns > 2 * live.MS


def test_verbs_that_were_not_yielded_are_counted_in_a_warning() -> None:
    def forgets(me):
        live.send(0, 1)
        yield live.any_of(live.sleep(5), live.receive())

    world = live.World(SWITCH)
    world.actor(forgets)
    with pytest.warns(RuntimeWarning, match="made 1 verb and did not yield"):
        world.run()


def test_an_exception_of_a_program_or_of_its_match_says_in_whom() -> None:
    def asks(me):
        yield live.send(0, 1, 7)
        yield live.receive(lambda m: m.body[0])

    world = live.World(SWITCH)
    world.actor(asks, name="Ann")
    with pytest.raises(TypeError, match="not subscriptable") as error:
        world.run()
    assert error.value.__notes__ == ["in actor 'Ann' at 0 ns"]
