"""Ways of tokens to their experts: the bytes of each collective against closed forms."""

import pytest

import chakrakit as ck
from chakrakit.machines.library import Routing, reached
from chakrakit.trace.model import CollectiveType

HIDDEN, TOP_K, EXPERTS, SEQ = 256, 4, 32, 512
MODEL = {
    "layers": 1, "hidden": HIDDEN, "heads": 4, "vocab": 1024, "experts": EXPERTS, "top_k": TOP_K,
    "expert_ffn": 128,
}  # fmt: skip


def exchanges(**plan):
    """(collective, bytes, members) of the first rank's exchanges in forward, in order."""
    step = {"seq": SEQ, "global_batch": plan.get("dp", 1), "model": "llama3-8b"}
    traces = ck.generate(**MODEL, **step, **plan).traces
    trace = traces.trace(0)
    found = []
    for row in trace.nodes.to_pylist():
        if (
            row["name"].startswith(("layer0.moe", "moe", "layers.0.moe"))
            and row.get("comm_type") is not None
        ):
            members = traces.groups[row["pg_name"]]
            found.append((CollectiveType(row["comm_type"]).name, row["comm_size"], tuple(members)))
    return found


def products(**plan):
    """FLOPs of all ranks together."""
    step = {"seq": SEQ, "global_batch": 8, "model": "llama3-8b"}
    traces = ck.generate(**MODEL, **step, **plan).traces
    return sum(int(traces.trace(r).column("num_ops", 0).sum()) for r in traces.ranks)


def test_a_copy_for_every_expert():
    copies = SEQ * TOP_K * HIDDEN * 2
    kinds = exchanges(dp=8, ep=8)[:2]
    assert [(k, size, len(m)) for k, size, m in kinds] == [("ALL_TO_ALL", copies, 8)] * 2


def test_once_to_every_rank_that_has_some():
    share = reached(8, Routing(1, 1, TOP_K, EXPERTS))
    assert share == pytest.approx(8 * (1 - 28 * 27 * 26 * 25 / (32 * 31 * 30 * 29)))
    (_, size, _), *_ = exchanges(dp=8, ep=8, exchange="once")
    assert size == pytest.approx(SEQ * HIDDEN * 2 * share, abs=1)


def test_once_to_every_node_and_from_there_within_it():
    far, near, back, home = exchanges(dp=8, ep=8, exchange="once", exchange_node=4)[:4]
    nodes = reached(2, Routing(1, 1, TOP_K, EXPERTS))
    assert far[1] == pytest.approx(SEQ * HIDDEN * 2 * nodes, abs=1)
    assert (far[2], near[2]) == ((0, 4), (0, 1, 2, 3))
    assert (back[2], home[2]) == (near[2], far[2])


def test_a_token_goes_to_no_more_nodes_than_the_groups_of_experts_it_is_limited_to():
    """Four groups on four nodes, of which a token may go to one: it crosses to that one alone."""
    plan = {"dp": 8, "ep": 8, "exchange": "once", "exchange_node": 2}
    free, limited = (
        exchanges(**plan, **g)[0][1] for g in ({}, {"expert_groups": 4, "top_groups": 1})
    )
    assert limited == SEQ * HIDDEN * 2 < free
    with pytest.raises(ck.ConfigError, match="3 expert_groups do not divide 32 experts"):
        exchanges(**plan, expert_groups=3, top_groups=1)
    with pytest.raises(ck.ConfigError, match="top_k 4 of top_groups 1 with 2 experts each"):
        exchanges(**plan, expert_groups=16, top_groups=1)


def test_every_token_to_every_rank():
    own = SEQ * HIDDEN * 2
    gather, scatter = exchanges(dp=8, ep=8, exchange="gather")[:2]
    assert gather[:2] == ("ALL_GATHER", own)
    assert scatter[:2] == ("REDUCE_SCATTER", own * 8)


def test_experts_over_more_ranks_than_dp_are_folded_over_tp():
    """Whole experts on each rank, and the same work in all."""
    (_, size, members), *_ = exchanges(dp=4, tp=2, ep=8)
    assert len(members) == 8
    assert size == SEQ // 2 * TOP_K * HIDDEN * 2  # each rank of tp sends its own tokens
    assert products(dp=4, tp=2, ep=8) == products(dp=4, tp=2, ep=4)


def test_what_cannot_be_folded_is_refused():
    with pytest.raises(ck.ChakraError, match="folded over tp = 2"):
        exchanges(dp=2, tp=2, ep=16)
