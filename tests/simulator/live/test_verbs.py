"""Verbs take the time that can be worked out by hand, on the simulator's own network."""

from __future__ import annotations

import random
from typing import Any

import pytest

from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.machines import load_machine, machine
from chakrakit.machines.fabric import Machine
from chakrakit.simulator import live
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from support.networks import MACHINES

SWITCH = {"network": [{"topology": "switch", "size": 4, "bandwidth": 1e9, "latency": 5e-7}]}
"""A message of n bytes takes 1,000 ns (two links) and n ns, alone."""


def outcome(*programs: Any, machine: Any = SWITCH, **options: Any) -> dict[str, Any]:
    world = live.World(machine, **options)
    for rank, program in enumerate(programs):
        world.actor(program, rank=rank, name=program.__name__)
    return world.run().returned


def test_a_message_takes_latency_and_bytes_and_an_answer_as_long_again() -> None:
    def asks(me):
        yield live.send("answers", 500, "how are you")
        (answer,) = yield live.receive()
        return answer.body, answer.sender.name, answer.sent_ns, me.now

    def answers(me):
        (question,) = yield live.receive()
        yield live.compute(250)
        yield live.send(question.sender, 1000, "fine")

    assert outcome(asks, answers)["asks"] == ("fine", "answers", 1750.0, 3750.0)


def test_messages_to_one_receiver_share_its_link() -> None:
    def hears(me):
        yield live.receive(count=3)
        return me.now

    def says(me):
        yield live.send("hears", 600, wait=True)
        return me.now

    world = live.World(SWITCH)
    world.actor(hears, name="hears")
    for rank in (1, 2, 3):
        world.actor(says, rank=rank, name=f"says {rank}")
    assert set(world.run().returned.values()) == {1000 + 3 * 600.0}


def test_a_quorum_ends_with_the_kth_message_and_leaves_the_rest() -> None:
    def quorum(me):
        first = yield live.receive(count=2)
        then = me.now
        (last,) = yield live.receive()
        return [m.body for m in first], then, last.body, me.now

    def at(ns):
        def voter(me):
            yield live.sleep(ns)
            yield live.send("quorum", 0, ns)

        return voter

    world = live.World(SWITCH)
    world.actor(quorum, name="quorum")
    for rank, ns in enumerate((900, 100, 500), 1):
        world.actor(at(ns), rank=rank)
    assert world.run().returned["quorum"] == ([100, 500], 1500.0, 900, 1900.0)


def test_a_timeout_gives_what_has_come_and_a_message_at_that_moment_counts() -> None:
    def waits(me):
        late = yield live.receive(timeout=999)
        at_once = yield live.receive(timeout=1)
        both = yield live.receive(count=2, timeout=500)
        none = yield live.receive(timeout=0)
        return len(late), len(at_once), len(both), len(none), me.now

    def says(me):
        yield live.send("waits", 0)
        yield live.sleep(100)
        yield live.send("waits", 0)

    assert outcome(waits, says)["waits"] == (0, 1, 1, 0, 1500.0)


def test_what_does_not_match_stays_in_the_mailbox() -> None:
    def picks(me):
        yield live.sleep(5000)
        (b,) = yield live.receive(lambda m: m.body == "b")
        (a,) = yield live.receive()
        return b.body, a.body

    def says(me):
        yield live.send("picks", 0, "a")
        yield live.send("picks", 0, "b")

    assert outcome(picks, says)["picks"] == ("b", "a")


def test_the_first_of_several_wins_and_the_others_give_back_what_they_took() -> None:
    def chooses(me):
        number, value = yield live.any_of(live.receive(count=2), live.sleep(1200))
        (still_there,) = yield live.receive(timeout=0)
        return number, value, still_there.body, me.now

    def says(me):
        yield live.send("chooses", 0, "one")

    assert outcome(chooses, says)["chooses"] == (1, None, "one", 1200.0)


def test_all_of_several_ends_with_the_last_and_gives_all_results() -> None:
    def part(ns):
        yield live.sleep(ns)
        yield live.sleep(ns)
        return ns

    def whole(me):
        values = yield live.all_of(live.sleep(70), part(50), part(20), live.compute(90))
        nothing = yield live.all_of()
        return values, nothing, me.now

    assert outcome(whole)["whole"] == ((None, 50, 20, None), (), 100.0)


def test_kernels_of_actors_on_one_rank_run_one_at_a_time_by_priority() -> None:
    ends: dict[str, float] = {}

    def works(me, priority):
        yield live.compute(100, priority=priority)
        ends[me.name] = me.now

    world = live.World(SWITCH)
    for name, priority in (("first", 0), ("low", 0), ("high", 5)):
        world.actor(works, priority, name=name)
    world.run()
    assert ends == {"high": 100.0, "first": 200.0, "low": 300.0}


def test_a_kernel_of_flops_takes_what_the_device_needs() -> None:
    device = {"name": "d", "peak": {"fp32": "1 TFLOP/s"}, "memory_bandwidth": "1 GB/s"}

    def works(me):
        yield live.compute(flops=5e6, bytes=10, dtype="fp32")
        by_rate = me.now
        yield live.compute(flops=5, bytes=7000, dtype="fp32")
        return by_rate, me.now - by_rate

    assert outcome(works, machine={**SWITCH, "device": device})["works"] == (5000.0, 7000.0)


def test_a_collective_takes_what_simulate_says_and_waits_for_its_last_member() -> None:
    from chakrakit.simulator.engine import one_collective, run

    kind, size = 0, 40_000
    alone = run(one_collective(kind, size, range(4)), machine(SWITCH)).makespan_ps / 1000
    ends: dict[int, float] = {}

    def member(me, groups):
        yield live.sleep(100 * me.rank)
        group = yield live.new_group(groups[0], 1000)
        yield live.collective("all-reduce", size, group)
        ends[me.rank] = me.now

    world, groups = live.World(SWITCH), []
    actors = [world.actor(member, groups, rank=r) for r in range(4)]
    groups.append(world.group(actors))
    world.run()
    assert set(ends.values()) == {1000 + 300 + alone}


def test_members_that_call_different_collectives_are_named() -> None:
    def member(me, groups):
        yield live.collective("all-reduce", 1000 + me.rank, groups[0])

    world, groups = live.World(SWITCH), []
    groups.append(world.group([world.actor(member, groups, rank=r) for r in range(2)]))
    with pytest.raises(ConfigError, match=r"actor 1 .* 1,001 bytes where actor 0 called"):
        world.run()


def test_a_store_is_read_through_its_queue() -> None:
    disk = {"kind": "local", "bandwidth": "1 GB/s", "operations": 1}
    ends = []

    def reads(me):
        yield live.load("disk", 3000)
        yield live.store("disk", 1000)
        ends.append(me.now)

    world = live.World({**SWITCH, "storage": {"disk": disk}})
    world.actor(reads)
    world.actor(reads)
    world.run()
    assert ends == [7000.0, 8000.0]


def test_an_actor_that_joins_acts_from_then_on() -> None:
    def guest(me, who):
        yield live.send(who, 0, me.now)

    def host(me):
        yield live.sleep(50)
        joined = yield live.join(guest, me, rank=2, name="guest")
        (message,) = yield live.receive()
        return joined.name, message.body, message.sender.rank

    assert outcome(host)["host"] == ("guest", 50.0, 2)


def test_senders_are_known_by_name_and_groups_before_their_members() -> None:
    def counts(me, peers, group):
        heard = dict.fromkeys(peers, 0)
        yield live.collective("all_reduce", 1000, group)
        for peer in peers:
            yield live.send(peer, 1, "hello")
        for _ in peers:
            (message,) = yield live.receive()
            heard[message.sender] += 1
        return heard

    names = ["a", "b", "c"]
    world = live.World(SWITCH)
    group = world.group(names)
    for rank, name in enumerate(names):
        world.actor(counts, names, group, rank=rank, name=name)
    assert world.run().returned["b"] == {"a": 1, "b": 1, "c": 1}


def test_a_part_beside_a_program_may_wait_for_ever() -> None:
    def serves(me):
        def answers():
            while True:
                (asked,) = yield live.receive()
                yield live.send(asked.sender, 1, "here")

        yield live.spawn(answers(), daemon=True)
        yield live.sleep(10_000)
        return me.now

    def asks(me):
        yield live.send("serves", 1)
        yield live.receive()

    assert outcome(serves, asks)["serves"] == 10_000


def test_a_run_that_is_stopped_ends_then() -> None:
    def naps(me):
        yield live.sleep(100)

    world = live.World(SWITCH)
    world.actor(naps)
    assert world.run(until=60).end_ns == 60


def test_an_object_with_on_message_answers_for_ever() -> None:
    class Echo:
        def on_message(self, me, message):
            yield live.compute(10)
            yield live.send(message.sender, 0, message.body * 2)

    def asks(me):
        answers = []
        for number in (1, 2):
            yield live.send("echo", 0, number)
            (answer,) = yield live.receive()
            answers.append(answer.body)
        return answers, me.now

    world = live.World(SWITCH)
    world.actor(Echo(), rank=1, name="echo")
    world.actor(asks, name="asks")
    assert world.run().returned["asks"] == ([2, 4], 2 * 2010.0)


def test_a_stuck_run_names_who_waits_for_what() -> None:
    def silent(me):
        yield live.sleep(5)

    def hears(me):
        yield live.receive(count=3)

    def calls(me, groups):
        yield live.collective("barrier", 0, groups[0])

    world, groups = live.World(SWITCH), []
    world.actor(hears, rank=0, name="ears")
    caller = world.actor(calls, groups, rank=1, name="caller")
    groups.append(world.group([caller, world.actor(silent, rank=2, name="absent")]))
    with pytest.raises(DeadlockError) as error:
        world.run()
    assert "ears waits since 0 ns to receive 3 messages, of which 0 came" in str(error.value)
    assert "caller waits since 0 ns in barrier of 0 bytes for absent" in str(error.value)


def test_equal_seeds_give_equal_runs_and_another_seed_another() -> None:
    def gossips(me, n):
        for _ in range(n):
            yield live.sleep(me.random.expovariate(0.01))
            yield live.send(me.random.randrange(4), me.random.randrange(5000))

    def times(seed: int) -> list[list[int]]:
        world = live.World(SWITCH, seed=seed)
        for rank in range(4):
            world.actor(gossips, 20, rank=rank)
        run = world.run().run()
        return [run.end(rank).tolist() for rank in run.ranks]

    assert times(1) == times(1) != times(2)


PRICED = {
    "network": [
        {"topology": "torus", "dims": [3, 2], "bandwidth": "10 GB/s", "latency": "0.3337 us"},
        {
            "topology": "fat-tree",
            "arity": [2, 2],
            "bandwidth": "7 GB/s",
            "messages": {"overhead": "2 us", "gap": "1 us", "size": "3 KB"},
        },
    ],
    "software": {"collective_overhead": "6.6 us", "step_overhead": "1 us"},
}


@pytest.mark.parametrize("name", [*MACHINES, "priced", "dgx-h100:3", "gb200-nvl72:2"])
def test_a_message_takes_as_long_as_the_simulator_says(name: str) -> None:
    """On every shape, where ports have their price, and where a library has."""
    described = MACHINES.get(name) or (machine(PRICED) if name == "priced" else None)
    site = described or load_machine(name)
    rng = random.Random(site.size)
    for _ in range(3):
        a, b = rng.sample(range(site.size), 2)
        size = rng.choice([0, 1, 5_000, 3_000_000])
        traces = [TraceBuilder(), TraceBuilder()]
        traces[0].send("s", 0, 1, size)
        traces[1].recv("r", 0, 1, size)
        options = SimulationOptions(placement=(a, b), allow_empty=True)
        told = run(TraceSet.of(traces), site, options)
        assert took(site, a, b, size) == told.end.max()


def took(site: Machine, a: int, b: int, size: int) -> int:
    """Picoseconds until a message has arrived."""

    def sends(me: live.Actor) -> live.Program:
        yield live.send("there", size, wait=True)
        return me.now_ps

    world = live.World(site)
    world.actor(sends, rank=a, name="here")
    world.actor(lambda me: (yield live.receive()), rank=b, name="there")
    return int(world.run().returned["here"])


def test_a_timeout_that_was_not_needed_does_not_prolong_the_run() -> None:
    def says(me):
        yield live.compute(1000)
        yield live.send("hears", 8, "x")

    def hears(me):
        yield live.receive(timeout=10 * live.S)
        yield live.compute(500)

    world = live.World()
    world.actor(says, name="says")
    world.actor(hears, name="hears")
    assert world.run().end_ns < 10_000
