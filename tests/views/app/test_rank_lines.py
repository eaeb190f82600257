"""One rank ready to be drawn at any zoom."""

from __future__ import annotations

import numpy as np

import chakrakit as ck


def test_a_click_between_slices_finds_the_nearest(client, two_ranks):
    ask = client(two_ranks)
    nearest = {
        t: ask("at", rank=0, track=0, depth=0, time=t)["row"] for t in (-5, 9_999, 29_000, 31_000)
    }
    assert nearest == {-5: 0, 9_999: 0, 29_000: 0, 31_000: 2}


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
    window = ask("window", rank=0, first=0, last=1, **{"from": 0, "to": 10_000, "width": 100})
    assert [line["row"] for line in window["lines"]] == [[i] for i in range(200)]
    assert ask("node", rank=0, row=299)["depth"] == -1


def test_what_a_campaign_does_has_colours_of_its_own(client, tmp_path):
    """One node of two fails and there is no spare: the job trains, waits for its repair and starts again."""
    job = "{step_seconds: 10, steps: 8640, cluster: {nodes: 2, repair_hours: 5}, "
    job += "failures: {node_mtbf_hours: 10}, checkpoint: {interval_steps: 100, seconds: 5}, "
    job += "recovery: {policy: restart, detection_seconds: 60, restart_seconds: 300}}"
    (tmp_path / "job.yaml").write_text(job)
    ck.campaign(tmp_path / "job.yaml", histories=1, output=tmp_path / "run")
    ask = client(ck.read(tmp_path / "run"))
    session = ask("session")
    assert session["parts"][:3] == ["train", "checkpoint", "lost steps"]
    assert [t["title"] for t in ask("rank", rank=0)["tracks"]] == ["the job", "the node"]
    end = ask("rank", rank=0)["span"][1]
    window = ask("window", rank=0, first=0, last=2, **{"from": 0, "to": end, "width": 2000})
    names = {k["name"] for k in session["legends"]["kind"]}
    drawn = {
        session["legends"]["kind"][c]["name"] for line in window["lines"] for c in line["code"]
    }
    assert {"train", "waiting", "in service"} <= drawn <= names
    compute, *_, waiting, rest = window["strip"]
    assert max(compute) == max(waiting) == 255
    assert max(rest) > 0


def test_streams_of_communication_say_whose(client):
    """Groups by what the plan says that they are for; other streams have their numbers alone."""
    made = ck.generate(model="gpt3-125m", dp=2, tp=2, pp=2, seq=128, global_batch=4, layers=2)
    ask = client(ck.simulate(made.traces, "dgx-h100").run())
    titles = [track["title"] for track in ask("rank", rank=0)["tracks"]]
    assert titles[0] == "device 0 stream 0"
    assert {title.partition(": ")[2] for title in titles[1:]} >= {"tp", "messages"}
    assert any("dp" in title for title in titles)
