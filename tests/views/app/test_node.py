"""All about one node: attributes, edges, what it waited for, who it is tied to."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of


def test_a_node_is_told_with_attributes_edges_slack_waits_and_peers(client, two_ranks):
    ask = client(two_ranks).analyzed()
    node = ask("node", rank=0, row=1)
    assert (node["name"], node["start"], node["length"], node["kind"]) == (
        "sum",
        10_000,
        40_000,
        "comm",
    )
    assert node["attributes"]["pg_name"] == "1"
    assert [(n["name"], n["edge"]) for n in node["parents"]["shown"]] == [("forward", "data")]
    assert [n["name"] for n in node["children"]["shown"]] == ["update"]
    assert node["peers"]["wait"] == 20_000
    assert node["peers"]["last"] == 1
    assert [(p["rank"], p["row"]) for p in node["peers"]["shown"]] == [(1, 1)]
    end = next(w for w in node["waits"] if w["event"] == "end")
    assert (end["what"], end["node"]["rank"]) == ("the last rank to arrive", 1)
    assert ask("node", rank=0, row=0)["slack"] == 20_000
    assert ask("node", rank=1, row=0)["slack"] == 0


def test_a_message_leads_to_its_other_end(client, pipeline):
    ask = client(pipeline).analyzed()
    for hit in ask("search", text="gloo:send")["hits"]:
        node = ask("node", rank=hit["rank"], row=hit["row"])
        (peer,) = node["peers"]["shown"]
        assert peer["rank"] != hit["rank"]
        back = ask("node", rank=peer["rank"], row=peer["row"])
        assert back["name"] == "gloo:recv"
        assert [(p["rank"], p["row"]) for p in back["peers"]["shown"]] == [
            (hit["rank"], hit["row"])
        ]


@pytest.mark.slow
def test_edges_are_those_of_the_trace(client, pipeline):
    ask = client(pipeline)
    trace = pipeline.trace(1)
    for row in range(0, len(trace), 97):
        node, record = ask("node", rank=1, row=row), trace[row]
        for ends, expected in (
            (node["parents"], record.parents),
            (node["children"], record.children),
        ):
            assert ends["count"] == len(expected)
            assert [n["row"] for n in ends["shown"]] == [n.row for n, _ in expected][:200]


def test_of_folded_ranks_each_has_its_own_peers(client):
    """Two pairs of ranks alike: who ran first stands for all, but 2 talks to 3 and not to 1."""
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 8, pg_name="mine", stream=0)
    bindings = {r: ck.Binding(0, groups={"mine": str(r // 2)}) for r in range(4)}
    times = {r: Times(np.array([10 * (r % 2)]), np.array([30])) for r in range(4)}
    groups = ck.Groups({"0": [0, 1], "1": [2, 3]})
    ask = client(run_of(ck.TraceSet([t.build()], bindings, groups), times, tick_ps=1000)).analyzed()
    for rank, peer in ((0, 1), (1, 0), (2, 3), (3, 2)):
        node = ask("node", rank=rank, row=0)
        assert [p["rank"] for p in node["peers"]["shown"]] == [peer]
        ranks = [w["node"]["rank"] for w in node["waits"] if w["node"]]
        assert set(ranks) <= {rank, peer}
