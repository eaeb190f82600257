"""What studies of programs rest on: flows, overlays, protocols and learners, on cases known by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chakrakit.published.memory.serverless_graphs import draw_graph, supersteps
from chakrakit.published.policies.learned import Learner, Perturbation, SeenQuantity
from chakrakit.published.protocols.broadcast import DIGEST, broadcast
from chakrakit.published.protocols.classic import FAULTS, PROTOCOLS, cast, outcome, raft
from chakrakit.published.protocols.max_flow import FlowNetwork
from chakrakit.published.protocols.overlays import SPACE, Churn, Overlay
from chakrakit.published.protocols.swarm import Swarm, draw_peers, least_seconds
from chakrakit.simulator import live


def test_the_most_that_flows_is_the_least_cut():
    edges = [(0, 1, 3.0), (0, 2, 2.0), (1, 2, 5.0), (1, 3, 2.0), (2, 3, 3.0)]
    assert FlowNetwork(4, edges).flow(0, 3) == 5
    assert FlowNetwork(3, [(0, 1, 1.0)]).flow(0, 2) == 0
    # The shortest way 0-1-2-7 uses 1-2, which both longer ones need to be given back.
    crossed = [(0, 1), (1, 2), (2, 7), (0, 3), (3, 4), (4, 2), (1, 5), (5, 6), (6, 7)]
    assert FlowNetwork(8, [(a, b, 1.0) for a, b in crossed]).flow(0, 7) == 2
    rng = random.Random(1)
    for _ in range(30):
        n = 6
        drawn = [(a, b, float(rng.randint(0, 4))) for a in range(n) for b in range(n) if a != b]
        cuts = [
            sum(c for a, b, c in drawn if s >> a & 1 and not s >> b & 1)
            for s in range(1 << n)
            if s & 1 and not s >> (n - 1) & 1
        ]
        assert FlowNetwork(n, drawn).flow(0, n - 1) == min(cuts)


def test_peers_end_no_sooner_than_the_max_flow_bound_and_with_what_they_need():
    peers = draw_peers(24, 7.0, 4, 10, 1e9, 3)
    swarm = Swarm(peers, "fastest", random.Random(0))
    swarm.run(2, 0)
    assert swarm.ended >= least_seconds(peers)
    assert (swarm.has.sum(axis=1) == 4 + 10).all()


@pytest.mark.parametrize("n", [4, 10, 31])
def test_the_bytes_of_a_broadcast_by_digests_tend_to_those_of_the_messages(n):
    for size in (32, 4_096, 1_000_000, 100_000_000):
        told = broadcast(n, size, 2, "digests", "none", 0)
        assert told["bytes"] == n * size + 2 * n**2 * DIGEST  # votes cost the same for every size
        assert told["delivered"] == 1
    assert told["over_nm"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", ["Chord", "Pastry", "Kademlia"])
def test_a_node_knows_few_others_and_always_one_nearer_to_a_key_than_itself(kind):
    rng = np.random.default_rng(2)
    ids = np.sort(rng.choice(np.int64(SPACE), 256, replace=False))
    setting = {"spare": 8, "refresh_s": 60, "at_once": 1}
    overlay = Overlay(kind, setting, ids, Churn.draw(256, 0, 60, 60, 0))
    for key in rng.integers(SPACE, size=50).tolist():
        node, owner = int(rng.integers(256)), overlay.owner(key, 0.0)
        known = overlay.known(node, 0.0)
        assert len(known) < 128
        nearest = known[np.argmin(overlay.away(ids[known], key))]
        steps = 0
        while overlay.away(ids[[nearest]], key)[0] < overlay.away(ids[[node]], key)[0]:
            node, steps = int(nearest), steps + 1
            known = overlay.known(node, 0.0)
            nearest = known[np.argmin(overlay.away(ids[known], key))]
        reached = {node, *known.tolist()}
        assert owner in reached
        assert steps <= 16


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_two_nodes_of_a_protocol_decide_otherwise(protocol, fault):
    site = {"topology": "switch", "size": 16, "bandwidth": "10 Gb/s", "latency": "50 us"}
    world = live.World({"network": [site]}, seed=11)
    nodes = cast(world, protocol, fault)
    result = world.run()
    told = outcome(result.returned, result.summary.messages)
    assert told["safe"] == 1
    assert told["decided"] > 0
    if (protocol, fault) == (
        "PBFT",
        "none",
    ):  # a proposal, and two rounds of all to all, per request
        assert told["messages"] == 6 * (nodes + 2 * nodes**2)


def test_who_stands_for_election_says_the_term_of_its_last_entry():
    """By that and the length of their logs others know whether they may vote for it."""
    asked = []

    def scripted(me, until_ms):
        yield live.send(0, 200, ("append", 2, ((1, 0), (2, 1)), 0))
        while me.now < until_ms * live.MS:
            got = yield live.receive(timeout=until_ms * live.MS - me.now)
            asked.extend(m.body for m in got if m.body[0] == "vote?")

    world = live.World(
        {"network": [{"topology": "switch", "size": 2, "bandwidth": "10 Gb/s", "latency": "50 us"}]}
    )
    world.actor(raft, 2, 4, 400.0, rank=0)
    world.actor(scripted, 400.0, rank=1)
    world.run()
    assert asked[0] == ("vote?", 3, 2, 2)


def test_labels_by_subgraph_and_by_vertex_end_alike():
    graph = (120, 12, 0.3)
    src, dst = draw_graph(*graph, 5)
    labels = np.arange(120)
    while True:
        last = labels.copy()
        np.minimum.at(labels, dst, last[src])
        if (labels == last).all():
            break
    whole, single = (supersteps(*graph, 4, whole, 5) for whole in (True, False))
    assert len(whole) <= len(single)
    assert sum(s.writes.sum() for s in whole) < sum(s.writes.sum() for s in single)


def test_a_learner_finds_the_better_action_and_telemetry_comes_late():
    learner, rng = Learner(2, 0.2), random.Random(0)
    for _ in range(200):
        action = learner.choose("state", rng)
        learner.learn("state", action, -1.0 - action)
    learner.training = False
    assert learner.choose("state", rng) == 0
    seen = SeenQuantity(1, Perturbation(lag_s=5.0), rng)
    seen.note(1.0, [3.0])
    seen.note(4.0, [9.0])
    assert [seen.seen(at) for at in (5.0, 6.0, 8.9, 9.0)] == [[0.0], [3.0], [3.0], [9.0]]
