"""What the app answers: windows, nodes, edges, peers, paths, tabs; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.rank.view import rank_view
from chakrakit.trace.sets.run import Times, run_of
from chakrakit.views.app.launch import open_session
from chakrakit.views.app.server import static_files

EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def test_a_session_tells_what_there_is_and_reads_nothing(client, two_ranks):
    ask = client(two_ranks)
    side = ask("session")["sides"][0]
    assert side["folds"] == [[0, 1, "rank 0"], [1, 1, "rank 1"]]
    assert ask("progress") == [{"state": "idle", "done": 0, "total": 2, "error": ""}]


def test_a_window_holds_the_slices_with_names_and_kinds(client, two_ranks):
    ask = client(two_ranks)
    assert [t["title"] for t in ask("rank", rank=0)["tracks"]] == [
        "device 0 stream 7",
        "device 0 stream 20",
    ]
    found = ask("window", rank=0, **{"from": 0, "to": 60_000, "width": 60, "first": 0, "last": 2})
    slices = [
        (found["names"][name], start, length, code)
        for line in found["lines"]
        for name, start, length, code in zip(
            line["name"], line["start"], line["length"], line["code"], strict=True
        )
    ]
    assert slices == [
        ("forward", 0, 10_000, 0),
        ("update", 50_000, 5_000, 0),
        ("sum", 10_000, 40_000, 1),
    ]
    compute, communication, copies = found["strip"]
    assert compute == [255] * 10 + [0] * 40 + [255] * 5 + [0] * 5
    assert communication == [0] * 10 + [255] * 40 + [0] * 10
    assert not any(copies)


def test_times_are_relative_to_the_run_however_late_it_was(client):
    t = ck.TraceBuilder()
    t.comp("a", duration_ns=10, stream=0)
    late = 1_700_000_000_000_000_000
    run = run_of(
        ck.TraceSet([t.build()]), {0: Times(np.array([late]), np.array([late + 10]))}, tick_ps=1000
    )
    assert client(run)("rank", rank=0)["span"] == [0, 10]


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


def test_edges_are_those_of_the_trace(client, pipeline):
    ask = client(pipeline)
    trace = pipeline.trace(1)
    for row in range(0, len(trace), 97):
        node, told = ask("node", rank=1, row=row), trace[row]
        for ends, known in ((node["parents"], told.parents), (node["children"], told.children)):
            assert ends["count"] == len(known)
            assert [n["row"] for n in ends["shown"]] == [n.row for n, _ in known][:200]


def test_all_slices_of_a_recording_are_somewhere_at_full_zoom(client, pipeline):
    """Windows side by side, small enough that nothing is summed, show every row that ran once."""
    ask = client(pipeline)
    layout = ask("rank", rank=0)
    begin, end = layout["span"]
    rows: set[int] = set()
    step = (end - begin) // 40 + 1
    for at in range(begin, end + 1, step):
        found = ask(
            "window", rank=0, first=0, last=99, **{"from": at, "to": at + step, "width": 7999}
        )
        assert not any(line["bucket"] for line in found["lines"])
        rows.update(row for line in found["lines"] for row in line["row"])
    view = rank_view(pipeline, 0)
    assert rows == set(np.flatnonzero(view.ran & (view.kind != 4)).tolist())


def test_a_click_between_slices_finds_the_nearest(client, two_ranks):
    ask = client(two_ranks)
    nearest = {
        t: ask("at", rank=0, track=0, depth=0, time=t)["row"] for t in (-5, 9_999, 29_000, 31_000)
    }
    assert nearest == {-5: 0, 9_999: 0, 29_000: 0, 31_000: 2}


def test_the_critical_path_is_listed_and_marked(client, two_ranks):
    ask = client(two_ranks).analyzed()
    path = ask("path", **{"from": 0, "to": 60_000})
    assert path["length"] == 55_000
    first = path["segments"][0]
    assert (first["rank"], first["name"], first["length"]) == (1, "forward", 30_000)
    found = ask("window", rank=1, first=0, last=2, **{"from": 0, "to": 60_000, "width": 60})
    marked = [found["names"][line["name"][i]] for line in found["lines"] for i in line["path"]]
    assert marked[0] == "forward"
    assert found["path"]["start"][0] == 0
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
    shown = {}
    for side in (0, 1):
        found = ask(
            "window",
            side=side,
            rank=0,
            first=0,
            last=1,
            paint="change",
            **{"from": 0, "to": 400, "width": 100},
        )
        (line,) = found["lines"]
        names = ask("session")["changes"]
        pairs = zip(line["name"], line["code"], strict=True)
        shown[side] = {found["names"][n]: names[c]["name"] for n, c in pairs}
    assert shown[0] == {"same": "same", "grows": "slower", "shrinks": "faster", "gone": "alone"}
    assert shown[1] == {"same": "same", "grows": "slower", "shrinks": "faster", "new": "alone"}
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


def test_ranks_that_do_the_same_are_one_row(client):
    t = ck.TraceBuilder()
    t.comp("a", duration_ns=10, stream=0)
    times = {r: Times(np.array([0]), np.array([10 + (r == 5)])) for r in range(1000)}
    bindings = {r: ck.Binding(0) for r in range(1000)}
    ask = client(run_of(ck.TraceSet([t.build()], bindings), times, tick_ps=1000))
    assert ask("session")["sides"][0]["folds"] == [
        [0, 999, "ranks 0–4, 6–999 (999)"],
        [5, 1, "rank 5"],
    ]
    assert ask("rank", rank=7)["ranks"][:6] == [0, 1, 2, 3, 4, 6]


def test_large_runs_are_analyzed_when_asked_only(client, two_ranks, monkeypatch):
    monkeypatch.setattr("chakrakit.views.app.shown_run._SMALL", 5)
    ask = client(two_ranks)
    assert ask("node", rank=0, row=0)["analysis"] == "idle"
    ask("analyze")
    assert ask.session.sides[0].findings.wait()
    assert ask("node", rank=0, row=0)["slack"] == 20_000


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
        named = [w["node"]["rank"] for w in node["waits"] if w["node"]]
        assert set(named) <= {rank, peer}


def test_a_rank_on_which_nothing_ran_has_no_tracks(client, two_ranks):
    two_ranks.times[0].start[:], two_ranks.times[0].end[:] = -1, -1
    ask = client(two_ranks)
    assert ask("rank", rank=0)["tracks"] == []
    assert ask("window", rank=0, first=0, last=9, **{"from": 0, "to": 9, "width": 9})["lines"] == []
    assert ask("node", rank=0, row=0)["start"] is None


def test_the_graph_around_a_node_goes_from_left_to_right(client, pipeline):
    ask = client(pipeline)
    trace = pipeline.trace(0)
    busiest = int(np.argmax(np.bincount(trace.edges.dst, minlength=len(trace))))
    for hops in (1, 2, 4):
        found = ask("around", rank=0, row=busiest, hops=hops)
        column = {n["row"]: n["column"] for n in found["nodes"]}
        assert column[busiest] == 0
        assert all(column[e["from"]] < column[e["to"]] for e in found["edges"])
        near = {p.row for p, _ in trace[busiest].parents}
        assert near <= set(column) or found["hidden"]
        assert len(column) <= 1 + 2 * hops * 12


def test_the_window_for_perfetto_holds_what_touches_it(client, two_ranks):
    web = client(two_ranks).web
    given = {"ranks": "0,1", "from": 0, "to": 20_000, "width": 1}
    content = web.get("/api/perfetto", params=given).content
    assert b"forward" in content
    assert b"rank 1" in content
    late = web.get("/api/perfetto", params=given | {"from": 51_000, "to": 52_000}).content
    assert b"update" in late
    assert len(late) < len(content)
    assert web.get("/api/perfetto", params=given | {"ranks": ""}).status_code == 400


def test_traces_without_times_are_scheduled_and_say_so(tmp_path):
    t = ck.TraceBuilder()
    a = t.comp("a", num_ops=5)
    t.comp("b", num_ops=5, deps=[a])
    ck.write(ck.TraceSet([t.build()]), tmp_path / "bare")
    (side,) = open_session([str(tmp_path / "bare")]).sides
    assert "no times" in side.notes[0]
    assert side.lines(0).span == (0, 2_000)


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path, two_ranks):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        ck.write(two_ranks, path)
    assert [side.name for side in open_session(paths).sides] == ["a", "b"]
    two_ranks.card = two_ranks.card.replace(name="llama")
    for path in paths:
        ck.write(two_ranks, path)
    assert [side.name for side in open_session(paths).sides] == ["a", "b"]
    twice = [paths[0], f"{tmp_path}/./a"]
    assert [side.name for side in open_session(twice).sides] == twice
    assert [side.name for side in open_session(paths[:1]).sides] == ["llama"]


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("rank", {}, "lacks 'rank'"),
        ("rank", {"rank": 9}, "no rank 9"),
        ("rank", {"rank": "x"}, "whole number"),
        ("rank", {"rank": "nan"}, "whole number"),
        ("rank", {"rank": 0, "side": 1}, "side"),
        ("node", {"rank": 0, "row": 3}, "row"),
        ("window", {"rank": 0, "from": 5, "to": 5, "width": 9}, "empty"),
        ("window", {"rank": 0, "from": 0, "to": 5, "width": 10**9}, "width"),
        ("at", {"rank": 0, "track": 7, "depth": 0, "time": 0}, "track"),
        ("around", {"rank": 0, "row": 0, "hops": 99}, "hops"),
        ("section", {"name": "Nonsense"}, "no tab"),
        ("search", {"text": " "}, "search for"),
        ("search", {"text": "name~("}, "regular expression"),
    ],
)
def test_senseless_requests_are_refused_with_a_sentence(client, two_ranks, name, given, why):
    assert why in client(two_ranks).refused(name, **given)


def test_only_the_page_s_own_files_are_served(client, two_ranks):
    web = client(two_ranks).web
    assert {"index.html", "main.js", "app.css"} <= set(static_files())
    for name in [*static_files(), "report.js", "report.css"]:
        assert web.get(f"/static/{name}").status_code == 200
    for path in (
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/",
        "/etc/passwd",
        "/static/..%2f..%2freport.py",
    ):
        assert web.get(path).status_code == 404
    assert web.post("/api/session").status_code == 405


def test_rows_nested_deeper_than_a_screen_are_counted(client):
    n = 300
    trace = ck.Trace.from_columns(
        {
            "name": [f"f{i}" for i in range(n)],
            "type": [4] * n,
            "is_cpu_op": [True] * n,
            "tid": [1] * n,
            "start_time_ns": np.arange(n) * 10,
            "duration_ns": 10_000 - 20 * np.arange(n),
        }
    )
    ask = client(ck.Run([trace]))
    layout = ask("rank", rank=0)
    assert (layout["too_deep"], layout["tracks"][0]["depth"]) == (100, 200)
    found = ask("window", rank=0, first=0, last=1, **{"from": 0, "to": 10_000, "width": 100})
    assert [line["row"] for line in found["lines"]] == [[i] for i in range(200)]
    assert ask("node", rank=0, row=299)["depth"] == -1
