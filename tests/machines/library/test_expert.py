"""Dispatch and combine of experts: how far tokens go, and what that takes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.library import (
    ExpertKernels,
    Routing,
    Span,
    latency_terms,
    throughput_terms,
    token_bytes,
)
from chakrakit.machines.library.engines import (
    devices_reached,
    nodes_reached,
    places_reached,
    reached,
)
from support.spanned import spanned


def test_tokens_reach_the_nodes_that_have_their_experts():
    routing = Routing(4096, 7168, 8, 256)
    assert reached(1, routing) == 1
    assert reached(8, routing) == pytest.approx(
        8 * (1 - np.prod((224 - np.arange(8)) / (256 - np.arange(8))))
    )
    assert token_bytes("dispatch", routing) == 7168 + 7168 / 128 * 4 + 16
    assert token_bytes("combine", routing) == 2 * 7168


@pytest.mark.parametrize(("nodes", "most"), [(8, 4), (8, 2), (8, 7), (8, 0), (4, 4), (2, 4)])
def test_limited_routing_reaches_what_drawn_tokens_reach(nodes, most):
    """Scores are drawn, the nodes with the best scores kept, and the best experts of those taken."""
    rng = np.random.default_rng(7)
    experts, topk, kept = 64, 6, min(most or nodes, nodes)
    scores = rng.random((4_000, experts))
    best = scores.reshape(len(scores), nodes, -1).max(axis=2)
    threshold = np.sort(best, axis=1)[:, -kept][:, None]
    allowed = np.repeat(best >= threshold, experts // nodes, axis=1)
    chosen = np.argsort(np.where(allowed, scores, -1.0), axis=1)[:, -topk:]
    drawn = np.mean([len(set(row)) for row in (chosen // (experts // nodes)).tolist()])
    devices = np.mean([len(set(row)) for row in (chosen // (experts // nodes // 2)).tolist()])
    pairs = np.mean([len(set(row)) for row in (chosen // (2 * experts // nodes)).tolist()])
    routing = Routing(1, 1, topk, experts, most)
    assert places_reached(nodes // 2, nodes, routing) == pytest.approx(pairs, rel=0.01)
    assert places_reached(nodes, nodes, routing) == pytest.approx(nodes_reached(nodes, routing))
    assert nodes_reached(nodes, routing) == pytest.approx(drawn, rel=0.01)
    assert devices_reached(nodes, 2 * nodes, routing) == pytest.approx(devices, rel=0.08)


def test_a_limit_takes_traffic_off_the_network_and_leaves_what_is_within_it():
    library, span = spanned("dgx-h100:8", 64)
    free, limited, loose = (Routing(4096, 7168, 8, 256, most) for most in (0, 4, 8))
    terms = [
        throughput_terms(library.dispatch, "dispatch", r, span, 24) for r in (free, limited, loose)
    ]
    assert terms[1].network / terms[0].network == pytest.approx(3.983 / 5.295, rel=1e-3)
    assert terms[2] == terms[0]
    with pytest.raises(ConfigError, match="topk 9 on 1 of 8 nodes with 8 experts each"):
        Routing(1, 1, 9, 64, 1).check(64, 8)


def test_fabrics_that_lose_nothing_carry_what_the_authors_of_deepep_publish():
    """51 GB/s on 8 nodes and 58 on 4, counted with what stays in a token's own node; fitted on 2 nodes."""
    for nodes, published in ((4, 58), (8, 51)):
        library, span = spanned(f"dgx-h100:{nodes}", 8 * nodes)
        routing = Routing(4096, 7168, 8, 256, 4)
        healthy = msgspec.structs.replace(library.dispatch, crowd=0.0)
        terms = throughput_terms(healthy, "dispatch", routing, span, 24)
        sent = 4096 * nodes_reached(nodes, routing) * token_bytes("dispatch", routing)
        slowest = max(terms.network, terms.links, terms.copying)
        assert sent / slowest * 1e-9 == pytest.approx(published, rel=0.1)


def test_expert_exchange_grows_with_tokens_nodes_and_fewer_multiprocessors():
    library, span = spanned("dgx-h100:4", 32)
    small, large = (Routing(t, 7168, 8, 256) for t in (128, 4096))
    for what in ("dispatch", "combine"):
        constants = getattr(library, what)
        took = [throughput_terms(constants, what, r, span, 24).seconds for r in (small, large)]
        assert took[0] < took[1]
        assert throughput_terms(constants, what, large, span, 4).seconds > took[1]
        quick = [latency_terms(constants, what, r, span).seconds for r in (small, large)]
        assert quick[0] < quick[1]
    with pytest.raises(ConfigError, match="16 experts on 32 members"):
        Routing(1, 1, 1, 16).check(32)


PLAIN = ExpertKernels(
    local_us=10, start_us=50, node_us=5, share=0.5, network_share=0.5, crowd=0.1,
    local_multiprocessor_gbs=1e6, multiprocessor_gbs=1e6, low_latency_local_us=7,
    low_latency_us=20, low_latency_hop_us=3, low_latency_share=0.5, low_latency_network_share=0.25,
)  # fmt: skip


def test_within_a_node_the_links_carry_what_every_token_sends():
    """Every token reaches both devices (all experts see it), half of it over 1 GB/s of the link."""
    routing = Routing(tokens=100, hidden=500, topk=2, experts=2)
    span = Span(2, 1, 2, 2e9, 0.0, False)
    expected = 10e-6 + 100 * (2 * 1 / 2) * 1000 / 1e9
    found = throughput_terms(PLAIN, "combine", routing, span, 24).seconds
    assert found == pytest.approx(expected, rel=1e-3)


def test_ports_and_multiprocessors_work_at_once_after_a_first_chunk():
    """Two nodes of one device, every token goes to both: 1 kB of it over 0.5 GB/s, 4 kB copied at 1 GB/s.

    Four multiprocessors are two channels. Of 50 tokens each sends 25 to either node, less than a chunk of 32,
    so that nothing runs at once; of 1,000 tokens 500, which are 15.6 chunks.
    """
    copying = msgspec.structs.replace(PLAIN, multiprocessor_gbs=0.25)
    span = Span(2, 2, 1, 1e9, 1e9, False, port=1e9)
    for tokens, chunks in ((50, 1.0), (1_000, 500 / 32)):
        routing = Routing(tokens=tokens, hidden=500, topk=2, experts=2)
        terms = throughput_terms(copying, "combine", routing, span, 4)
        assert terms.network == pytest.approx(tokens * 1 * 1000 / 0.5e9)
        assert terms.copying == pytest.approx(tokens * 4 * 1000 / 1e9)
        assert terms.filling == pytest.approx(terms.network / chunks)
        assert terms.seconds == pytest.approx(60e-6 + terms.copying + terms.filling)


def test_low_latency_sends_a_token_to_each_of_its_experts():
    routing = Routing(tokens=100, hidden=500, topk=2, experts=4)
    within = Span(2, 1, 2, 2e9, 0.0, False)
    assert latency_terms(PLAIN, "combine", routing, within).seconds == pytest.approx(
        7e-6 + 100 * 0.5 * 2 * 1000 / 1e9
    )
    across = Span(4, 4, 1, 2e9, 1e9, False, port=1e9)
    assert latency_terms(PLAIN, "combine", routing, across).seconds == pytest.approx(
        (20 + 3 * 2) * 1e-6 + 100 * 0.75 * 2 * 1000 / 0.25e9
    )


@pytest.mark.parametrize(
    ("routing", "said"),
    [
        (Routing(0, 1, 1, 8), "must be 1 or more"),
        (Routing(1, 1, 1, 8, -1), "most_nodes 0 or more"),
        (Routing(1, 1, 9, 8), "topk 9 of 8 experts"),
        (Routing(1, 1, 1, 2), "2 experts on 4 members: some would have none"),
    ],
)
def test_routings_that_cannot_be_are_refused(routing, said):
    with pytest.raises(ConfigError, match=said):
        routing.check(4)
    Routing(1, 1, 4, 4).check(4)
