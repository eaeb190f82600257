"""GOAL out and in: dependencies, bytes and peers are kept; collectives take what their algorithm takes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, FormatError
from chakrakit.simulator.exports import goal_of
from chakrakit.sources.foreign import (
    CALC,
    SEND,
    GoalRank,
    goal_binary,
    goal_text,
    parse_binary_goal,
    parse_goal,
    traces_of_goal,
)
from chakrakit.trace.model import CollectiveType, EdgeForm
from support.commands import data, succeeded
from support.loggops import Network, run

KINDS = (CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER,
         CollectiveType.ALL_TO_ALL, CollectiveType.BROADCAST, CollectiveType.BARRIER)  # fmt: skip


def facts(ranks):
    """What must be kept of a schedule, in any order of dependencies."""
    return [
        (r.kind, r.size, r.peer, r.tag, r.cpu, sorted(set(r.ends)), sorted(set(r.starts)))
        for r in ranks
    ]


def random_schedule(seed):
    """Messages that meet, calculations between them, and dependencies on what stands before."""
    rng = np.random.default_rng(seed)
    ranks = [GoalRank() for _ in range(int(rng.integers(2, 6)))]
    for _ in range(int(rng.integers(1, 25))):
        a, b = rng.choice(len(ranks), 2, replace=False).tolist()
        size, tag = int(rng.integers(1, 10_000)), int(rng.integers(0, 3))
        ends = (
            ranks[a].add(SEND, size, b, tag, int(rng.integers(0, 3))),
            ranks[b].add(2, size, a, tag),
        )
        calc = ranks[a].add(CALC, int(rng.integers(0, 5_000)), cpu=int(rng.integers(0, 3)))
        for rank, op in ((ranks[a], ends[0]), (ranks[b], ends[1]), (ranks[a], calc)):
            for before in rng.choice(op, min(op, 2), replace=False).tolist() if op else []:
                (rank.ends if rng.random() < 0.7 else rank.starts).append((int(before), op))
    for rank in ranks:
        rank.ends, rank.starts = sorted(set(rank.ends)), sorted(set(rank.starts) - set(rank.ends))
    return ranks


MANY = [
    pytest.param(range(10), id="ten"),
    pytest.param(range(10, 200), id="many", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("seeds", MANY)
def test_goal_to_traces_to_goal(seeds):
    for seed in seeds:
        _there_and_back(seed)


def _there_and_back(seed):
    ranks = random_schedule(seed)
    text = "".join(goal_text(ranks)).encode()
    assert facts(parse_goal(text, "x")) == facts(ranks)
    assert facts(parse_binary_goal(goal_binary(ranks), "x")) == facts(ranks)
    again = goal_of(traces_of_goal(ranks, "x"))
    assert facts(again.ranks) == facts(ranks)
    assert sum(again.left_out.values()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MANY)
def test_traces_to_goal_to_traces(seeds):
    for seed in seeds:
        _back_and_there(seed)


def _back_and_there(seed):
    """Bytes between ranks, calculations and the order that dependencies give, collectives included."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    builders = [ck.TraceBuilder() for _ in range(size)]
    last: list[list[int]] = [[] for _ in builders]
    for step in range(int(rng.integers(1, 6))):
        kind, bytes_ = KINDS[int(rng.integers(0, len(KINDS)))], int(rng.integers(1, 5_000))
        for rank, builder in enumerate(builders):
            gemm = builder.comp("gemm", duration_ns=int(rng.integers(0, 999)), deps=last[rank])
            last[rank] = [builder.collective(f"c{step}", kind, bytes_, deps=[gemm])]
    traces = ck.TraceSet.of(builders)
    schedule = goal_of(traces)
    again = traces_of_goal(schedule.ranks, "x")
    for rank in range(size):
        own, new = traces.trace(rank), again.trace(rank)
        assert new.own_ns.sum() == own.own_ns.sum()
        assert new.graph.is_acyclic
        # Operation i is node i, and comes after what that came after; a collective ends in a later one.
        for src, dst in zip(own.edges.src.tolist(), own.edges.dst.tolist(), strict=True):
            assert dst in set(np.flatnonzero(new.graph.descendants(np.array([src]))).tolist())
    sent, received = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for rank, ops in enumerate(schedule.ranks):
        for kind_, amount, peer in zip(ops.kind, ops.size, ops.peer, strict=True):
            if kind_ != CALC:
                (sent if kind_ == SEND else received)[
                    (rank, peer) if kind_ == SEND else (peer, rank)
                ] += amount
    assert sent == received
    run(schedule.ranks, Network(latency=7, overhead=1))


def test_tags_of_32_bits_come_back():
    ranks = [GoalRank() for _ in range(2)]
    for tag in (0, 2**31 - 1, 2**31, 2**32 - 2):
        ranks[0].add(SEND, 8, 1, tag)
        ranks[1].add(2, 8, 0, tag)
    assert [r.tag for r in goal_of(traces_of_goal(ranks, "x")).ranks] == [r.tag for r in ranks]


def test_messages_of_tag_minus_one_get_a_tag_that_nobody_has():
    """In GOAL that number is a receive of any tag."""
    builders = [ck.TraceBuilder() for _ in range(2)]
    builders[0].send("m", 0, 1, 8, tag=-1)
    builders[1].recv("m", 0, 1, 8, tag=-1)
    for builder in builders:
        builder.collective("c", CollectiveType.ALL_REDUCE, 8)
    ranks = goal_of(ck.TraceSet.of(builders)).ranks
    assert ranks[0].tag[0] == ranks[1].tag[0] == 1
    assert {*ranks[0].tag} == {0, 1, 2}
    assert parse_binary_goal(goal_binary(ranks), "x")


def test_a_receive_of_any_tag_is_refused_with_its_line():
    text = "num_ranks 2\nrank 0 {\nrecv 8b from 1 tag 4294967295\n}\nrank 1 {\n}\n"
    with pytest.raises(FormatError, match=r"line 3: a receive .* of any tag"):
        parse_goal(text.encode(), "x")
    ranks = [GoalRank(), GoalRank()]
    ranks[0].add(2, 8, 1, 2**32 - 1)
    with pytest.raises(FormatError, match="any tag"):
        parse_binary_goal(goal_binary(ranks), "x")


@pytest.mark.parametrize(("members", "size"), [(2, 1000), (4, 4096), (8, 8 * 1000)])
def test_a_ring_all_reduce_takes_what_its_closed_form_says(members, size):
    """2 (n-1) rounds, in each of which a piece travels: overheads at both ends, latency, and its bytes."""
    builder = ck.TraceBuilder()
    builder.collective("sum", CollectiveType.ALL_REDUCE, size)
    traces = ck.TraceSet.of(builder, ranks=members)
    schedule = goal_of(traces, algorithms={"all-reduce": "ring"})
    net = Network(latency=1500, overhead=20, gap=5, per_byte=3)
    ends = [max(e) for e in run(schedule.ranks, net)]
    piece = size // members
    one_round = 2 * net.overhead + net.latency + (piece - 1) * net.per_byte
    assert set(ends) == {2 * (members - 1) * one_round}
    assert schedule.algorithms == {f"all-reduce of {members}: ring": 1}


def test_computation_beside_a_collective_overlaps_with_it():
    builder = ck.TraceBuilder()
    builder.collective("sum", CollectiveType.ALL_REDUCE, 4000)
    builder.comp("other work", duration_ns=50_000)
    schedule = goal_of(ck.TraceSet.of(builder, ranks=2), algorithms={"all-reduce": "ring"})
    ends = run(schedule.ranks, Network(latency=1000, per_byte=1))
    assert max(map(max, ends)) == 50_000


def test_an_end_that_waits_for_another_is_kept_by_one_that_stands_for_both():
    builder = ck.TraceBuilder()
    kernel = builder.comp("kernel", duration_ns=500, stream=1)
    wait = builder.comp("synchronize", duration_ns=10)
    builder.edge(kernel, wait, ck.EdgeKind.SYNC, form=EdgeForm.FINISH_FINISH)
    builder.comp("next", duration_ns=7, deps=[wait])
    ends = run(goal_of(ck.TraceSet.of(builder)).ranks, Network())
    assert max(ends[0]) == 507


def test_the_command_writes_text_and_binary_that_commands_open(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    succeeded("generate", "--model", "gpt3-125m", "--dp", 2, "--seq", 16, "-o", tmp_path / "w")
    done = data(
        "export", tmp_path / "w", tmp_path / "w.goal", "--to", "goal", "--machine", "dgx-h100"
    )
    succeeded(
        "export",
        tmp_path / "w",
        tmp_path / "w.bin",
        "--to",
        "goal",
        "--algorithm",
        "all-reduce=ring",
    )
    for name in ("w.goal", "w.bin"):
        info = data("info", tmp_path / name)
        assert (info["ranks"], info["types"]["COMM_SEND_NODE"] > 0) == (2, True)
    assert data("info", tmp_path / "w.goal")["nodes"] == done["nodes"]


def test_what_goal_cannot_say_is_refused_or_counted(tmp_path):
    builder = ck.TraceBuilder()
    builder.comp("a", duration_ns=5)
    builder.edge(builder.comp("b"), builder.comp("c"), lag_ns=5)
    assert goal_of(ck.TraceSet.of(builder)).left_out["lags of edges"] == 1
    with pytest.raises(ConfigError, match="without gaps"):
        goal_of(ck.TraceSet.of({3: builder}))


def test_a_collective_of_one_rank_is_no_message():
    builder = ck.TraceBuilder()
    builder.collective("alone", ck.CollectiveType.ALL_REDUCE, 8)
    traces = ck.TraceSet.of(builder)
    assert ck.validate(traces).ok
    assert goal_of(traces).algorithms == {"all-reduce of 1: direct": 1}
