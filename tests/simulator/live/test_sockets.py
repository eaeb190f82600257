"""Programs over sockets of this machine: the same programs as in a simulation, with its faults."""

from __future__ import annotations

import socket

import pytest

from chakrakit.errors import ConfigError
from chakrakit.simulator import live


class Echo:
    def on_message(self, me, message):
        yield live.send(message.sender, message.size, ("again", *message.body))


def asks(me, count):
    heard = []
    for number in range(count):
        yield live.send("echo", 300, ("question", number))
        (answer,) = yield live.receive(lambda m: m.body[0] == "again", timeout=2 * live.S)
        heard.append((answer.body, answer.size, answer.sender.name))
        yield live.sleep(1000)
    return heard, me.random.random()


def put(world, **asker):
    world.actor(asks, 3, name="asks", **asker)
    world.actor(Echo(), name="echo")
    return world


def test_a_program_says_and_hears_the_same_over_sockets_as_in_a_simulation():
    simulated = put(live.World(seed=7)).run()
    real = put(live.Sockets(seed=7)).run(10)
    assert real.returned["asks"] == simulated.returned["asks"]
    assert (real.messages, real.message_bytes) == (6, 1800)
    assert simulated.summary.messages == 6
    assert real.unfinished == []


def test_who_is_silent_or_late_is_not_heard():
    def waits(me):
        got = yield live.receive(count=2, timeout=0.05 * live.S)
        return sorted(m.body for m in got)

    def speaks(me, after_ns):
        yield live.sleep(after_ns)
        yield live.send("waits", 10, me.name)

    world = live.Sockets()
    world.actor(waits, name="waits")
    world.actor(speaks, 0, name="heard")
    world.actor(speaks, 0, name="silent", faults=[live.Silent()])
    world.actor(speaks, 0, name="crashed", faults=[live.Crash(0.0)])
    result = world.run(10)
    assert result.returned["waits"] == ["heard"]
    assert result.unfinished == ["crashed"]


def test_what_others_send_to_the_sockets_is_not_read():
    def waits(me):
        return len((yield live.receive(timeout=0.05 * live.S)))

    world = live.Sockets()
    world.actor(waits, name="waits")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b'[0,1,2,"hello"]', world.actors[0].socket.getsockname())
        assert world.run(10).returned == {"waits": 0}


def test_what_sockets_cannot_do_is_refused_by_name():
    def uses(me):
        yield live.load("disk", 1)

    def shouts(me):
        yield live.send(me, 1_000_000)

    for program, told in ((uses, "uses: over sockets a program"), (shouts, "1,000,000 bytes")):
        world = live.Sockets()
        world.actor(program, name=program.__name__)
        with pytest.raises(ConfigError, match=told):
            world.run(5)
    world = live.Sockets()
    world.actor(lambda me: (yield live.send("nobody", 1)), name="lost")
    with pytest.raises(ConfigError, match="no actor 'nobody'"):
        world.run(5)
