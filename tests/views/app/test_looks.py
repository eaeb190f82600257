"""What the page shows beside slices: figures over time, requests, calls and links."""

from __future__ import annotations

import pytest

from support.served import served


def test_figures_of_a_simulated_rank_come_with_unit_peak_and_limit(client, simulated):
    ask = client(simulated)
    figures = ask("rank", rank=0)["figures"]
    assert [f["title"] for f in figures[:2]] == ["memory", "power"]
    assert {f["unit"] for f in figures} == {"bytes", "W", "bytes/s"}
    link = figures[-1]
    assert "device 0" in link["title"]
    assert 0 < link["peak"] <= link["limit"] * 1.001
    window = {"from": 0, "to": int(simulated.makespan_ns), "width": 50}
    sent = ask("window", rank=0, **window)["figures"]
    assert [max(values) for values in sent] == pytest.approx([f["peak"] for f in figures])


def test_requests_have_lanes_parts_and_numbers(client):
    ask = client(served())
    parts = [entry["name"] for entry in ask("session")["legends"]["kind"]]
    assert ask("session")["parts"]
    sent = ask("window", rank=0, last=99, width=100, **{"from": 0, "to": 30_000_000})
    shown = {
        (sent["names"][n], parts[c])
        for line in sent["lines"]
        for n, c in zip(line["name"], line["code"], strict=True)
    }
    assert ("step", "compute") in shown
    assert ("request 1: queued", "queued") in shown
    assert ("request 0: output", "output") in shown
    titles = {f["title"] for f in ask("rank", rank=0)["figures"]}
    assert titles <= {"batch", "cache", "queue"}


def test_calls_and_links_of_a_stretch(client, simulated):
    ask = client(simulated)
    half = {"from": 0, "to": int(simulated.makespan_ns) // 2, "width": 1}
    calls = ask("flame", rank=0, **half)
    assert calls["name"][0] == "all"
    assert calls["time"][0] > 0
    assert "layers" in calls["name"]
    markup = ask("network", **half)["markup"]
    assert "what the timeline shows" in markup
    assert 'data-goto="rank=' in markup
    assert "Network" in ask("session")["looks"]


def test_a_recording_has_no_map(client, pipeline):
    ask = client(pipeline)
    assert ask("session")["looks"] == ["Flame graph"]
    assert "says nothing of links" in ask.refused("network", width=1, **{"from": 0, "to": 9})
