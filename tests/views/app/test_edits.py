"""Edits as the page asks for them: what is offered, what they come to, and what is drawn of them."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from support.recorded import linked


def texts(*edits: str) -> str:
    return json.dumps(edits)


def test_what_can_be_changed_is_offered_with_its_share(client, simulated):
    offered = client(simulated)("offered")
    assert offered["machine"] == "dgx-h100:1"
    assert dict(offered["classes"])["gemm"] > 0.1
    assert sum(share for _, share in offered["classes"]) == pytest.approx(1, abs=1e-6)
    assert "dp" in offered["groups"]
    assert "ring" in offered["algorithms"]["all-reduce"]
    assert offered["links"]
    waits = client(linked("mlp_ddp_nccl_1"))("offered")["waits"]
    assert any("Synchronize" in name for name, _ in waits)


def test_an_edit_comes_to_a_time_and_to_command_lines(client, simulated):
    ask = client(simulated)
    found = ask("edited", edits=texts("edit{scale=0.5, classes=[gemm]}"))
    assert found["edited"] < found["original"] == pytest.approx(simulated.makespan_ns)
    assert found["commands"][0].startswith("chakra transform run --pass 'edit{scale=0.5")
    assert "no pass 'edt'" in ask.refused("edited", edits=texts("edt{scale=2}"))
    assert "JSON list" in ask.refused("edited", edits="{")
    assert "at most 50 edits" in ask.refused("edited", edits=texts(*["compact"] * 51))
    most = ask("edited", edits=texts(*["edit{scale=2}", "edit{scale=0.5}"] * 25))
    assert most["edited"] == pytest.approx(most["original"])


def test_the_edited_run_is_a_side_of_its_own_with_the_rows_of_the_original(client, simulated):
    ask = client(simulated)
    edits = texts("edit{scale=0.25, classes=[gemm]}")
    window = {"rank": 0, "from": 0, "to": int(simulated.makespan_ns), "width": 900, "last": 9}
    before, after = ask("window", **window), ask("window", side=1, edits=edits, **window)
    assert after["span"][1] < before["span"][1]
    assert [line["row"] for line in after["lines"]] != []
    assert ask("rank", rank=0)["tracks"] == ask("rank", side=1, edits=edits, rank=0)["tracks"]
    node = ask("node", side=1, edits=edits, rank=0, row=0)
    assert node["length"] <= ask("node", rank=0, row=0)["length"]
    assert "give a whole number from 0 to 0" in ask.refused("rank", side=1, rank=0)


def test_a_rank_whose_device_changes_is_alike_to_itself_alone(client, simulated):
    ask = client(simulated)
    slow = texts("--straggler 1=3")
    assert ask("rank", side=1, edits=slow, rank=1)["ranks"] == [1]
    assert len(ask("rank", rank=1)["ranks"]) == 2


def test_slices_are_colored_by_class_and_by_name(client, simulated):
    ask = client(simulated)
    legend = [entry["name"] for entry in ask("session")["legends"]["class"]]
    window = {"rank": 0, "from": 0, "to": int(simulated.makespan_ns), "width": 2000, "last": 9}
    seen = {c for line in ask("window", paint="class", **window)["lines"] for c in line["code"]}
    assert {"gemm", "communication"} <= {legend[code] for code in seen}
    named = ask("window", paint="name", **window)
    colors: dict[str, set[int]] = {}
    for line in named["lines"]:
        for name, code in zip(line["name"], line["code"], strict=True):
            colors.setdefault(named["names"][name], set()).add(code)
    assert all(len(codes) == 1 for codes in colors.values())


@pytest.mark.slow
def test_an_area_is_totalled_by_kind_and_name(client, simulated):
    ask, whole = client(simulated), {"from": 0, "to": int(simulated.makespan_ns), "width": 1}
    tracks = len(ask("rank", rank=0)["tracks"])
    found = ask("area", rank=0, last=tracks, **whole)
    kinds = dict(found["kinds"])
    assert kinds["compute"] == pytest.approx(
        ck.analyze(simulated).ranks[0].breakdown.compute_ns, rel=1e-3
    )
    assert sum(count for _, _, count in found["names"]) <= found["slices"]
    half = ask("area", rank=0, last=tracks, **whole | {"to": whole["to"] // 2})
    assert dict(half["kinds"])["compute"] < kinds["compute"]


def test_a_run_in_which_nobody_communicates_has_no_waits(client):
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=1000, stream=0)
    alone = ck.simulate(
        ck.TraceSet([t.build()]), None, compute="measured", communication="measured"
    ).run()
    sent = client(alone).analyzed()("window", rank=0, last=9, width=9, **{"from": 0, "to": 2000})
    assert [line["wait"] for line in sent["lines"]] == [[0]]


@pytest.mark.slow
def test_waits_memory_and_sql_reach_the_page(client, simulated):
    pytest.importorskip("duckdb")
    ask = client(simulated).analyzed()
    window = {"rank": 2, "from": 0, "to": int(simulated.makespan_ns), "width": 2000, "last": 9}
    sent = ask("window", **window)
    assert min(w for line in sent["lines"] for w in line["wait"]) < 0  # a bubble
    figures = {
        f["title"]: (f["peak"], max(sent["figures"][i]))
        for i, f in enumerate(ask("rank", rank=2)["figures"])
    }
    assert figures["memory"][0] == figures["memory"][1] > 0
    rows = ask("query", sql="SELECT count(DISTINCT rank) AS ranks FROM nodes")
    assert (rows["columns"], rows["rows"]) == (["ranks"], [["4"]])
    assert "SELECT" in ask.refused("query", sql="DROP TABLE nodes")
    assert "Storage" not in ask("session")["tabs"]
    assert set(ask("tabs")["empty"]) <= set(ask("session")["tabs"])


def test_work_of_a_cpu_is_changed_on_the_host(client):
    """A recording without an accelerator: what is offered is the host's, and edits say so."""
    ask = client(linked("cnn_ddp_2"))
    offered = ask("offered")
    assert offered["host"]
    kernel = offered["kernels"][0][0]
    found = ask("edited", edits=texts(f'edit{{scale=0.1, on=host, names=["{kernel}$"]}}'))
    assert found["edited"] < found["original"]
    assert any("on=host" in line for line in found["commands"])
    assert not client(linked("mlp_ddp_nccl_1"))("offered")["host"]
