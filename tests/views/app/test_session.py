"""What the app was started with: its runs, tabs, paths, and what changed between two."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of

EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def test_a_session_tells_what_there_is_and_reads_nothing(client, two_ranks):
    ask = client(two_ranks)
    side = ask("session")["sides"][0]
    assert side["folds"] == [[0, 1, "rank 0"], [1, 1, "rank 1"]]
    assert ask("progress") == [{"state": "idle", "done": 0, "total": 2, "error": ""}]


def test_the_critical_path_is_listed_and_marked(client, two_ranks):
    ask = client(two_ranks).analyzed()
    path = ask("path", **{"from": 0, "to": 60_000})
    assert path["length"] == 55_000
    first = path["segments"][0]
    assert (first["rank"], first["name"], first["length"]) == (1, "forward", 30_000)
    window = ask("window", rank=1, first=0, last=2, **{"from": 0, "to": 60_000, "width": 60})
    marked = [window["names"][line["name"][i]] for line in window["lines"] for i in line["path"]]
    assert marked[0] == "forward"
    assert window["path"]["start"][0] == 0
    assert ask("path", **{"from": 56_000, "to": 60_000})["segments"] == []


def test_every_tab_can_be_opened(client, two_ranks):
    ask = client(two_ranks, two_ranks).analyzed()
    tabs = ask("session")["tabs"]
    assert tabs[0] == "Comparison"
    assert all(ask("section", name=name)["state"] == "done" for name in tabs)
    assert "forward" in ask("section", name="Tables")["markup"]


def test_storage_has_a_tab_where_the_machine_has_servers(client, two_ranks, stored):
    assert "Storage" not in client(two_ranks)("session")["tabs"]
    ask = client(stored).analyzed()
    assert "Storage" in ask("session")["tabs"]
    assert "longest queue" in ask("section", name="Storage")["markup"]


def test_names_are_escaped_in_tabs(client):
    t = ck.TraceBuilder()
    t.comp(EVIL, duration_ns=10, stream=0)
    run = run_of(ck.TraceSet([t.build()]), {0: Times(np.array([0]), np.array([10]))}, tick_ps=1000)
    ask = client(run, run).analyzed()
    for name in ask("session")["tabs"]:
        markup = ask("section", name=name)["markup"]
        assert "<script" not in markup
        assert "<img" not in markup
    assert ask("node", rank=0, row=0)["name"] == EVIL


def test_two_runs_tell_what_changed(client):
    def run(lengths: dict[str, int]) -> ck.Run:
        t = ck.TraceBuilder()
        for name, ns in lengths.items():
            t.comp(name, duration_ns=ns, stream=0)
        end = np.cumsum(list(lengths.values()))
        times = Times(end - list(lengths.values()), end)
        return run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000)

    ask = client(
        run({"same": 100, "grows": 100, "shrinks": 100, "gone": 5}),
        run({"same": 101, "grows": 150, "shrinks": 50, "new": 5}),
    )
    drawn = {}
    for side in (0, 1):
        window = ask(
            "window",
            side=side,
            rank=0,
            first=0,
            last=1,
            paint="change",
            **{"from": 0, "to": 400, "width": 100},
        )
        (line,) = window["lines"]
        names = ask("session")["changes"]
        pairs = zip(line["name"], line["code"], strict=True)
        drawn[side] = {window["names"][n]: names[c]["name"] for n, c in pairs}
    assert drawn[0] == {"same": "same", "grows": "slower", "shrinks": "faster", "gone": "alone"}
    assert drawn[1] == {"same": "same", "grows": "slower", "shrinks": "faster", "new": "alone"}
    twin = ask("node", side=1, rank=0, row=1)["twin"]
    assert (twin["change"], twin["node"]["name"], twin["node"]["length"]) == (
        "slower",
        "grows",
        100,
    )
    assert ask("node", side=0, rank=0, row=3)["twin"] == {
        "side": 1,
        "change": "removed",
        "node": None,
    }
    assert ask("node", side=1, rank=0, row=3)["twin"]["change"] == "added"


def test_the_window_for_perfetto_holds_what_touches_it(client, two_ranks):
    web = client(two_ranks).web
    parameters = {"ranks": "0,1", "from": 0, "to": 20_000, "width": 1}
    content = web.get("/api/perfetto", params=parameters).content
    assert b"forward" in content
    assert b"rank 1" in content
    late = web.get("/api/perfetto", params=parameters | {"from": 51_000, "to": 52_000}).content
    assert b"update" in late
    assert len(late) < len(content)
    assert web.get("/api/perfetto", params=parameters | {"ranks": ""}).status_code == 400
