"""Chrome's JSON: exact times, tracks that nest, arrows in pairs."""

from __future__ import annotations

from collections import defaultdict

from support.timelines import small


def test_chrome_times_are_microseconds_with_nanoseconds(chrome, tmp_path):
    events = [e for e in chrome(small()) if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in events] == [(0.0, 0.005), (1_000_000.007, 0.005)]
    assert '"ts":1000000.007,' in (tmp_path / "t.json").read_text()


def test_chrome_tracks_and_arrows(chrome, recorded):
    events = chrome(recorded)
    tracks = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            start = round(e["ts"] * 1000)
            tracks[e["pid"], e["tid"]].append((start, -(start + round(e["dur"] * 1000))))
    for slices in tracks.values():
        stack: list[int] = []
        for start, end in sorted(slices):
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or -end <= stack[-1], "slices overlap without nesting"
            stack.append(-end)
    arrows = defaultdict(list)
    for e in events:
        if e["ph"] in "stf":
            arrows[e["id"]].append(e)
    assert arrows
    for ends in arrows.values():
        phases = [e["ph"] for e in sorted(ends, key=lambda e: (e["ts"], "stf".index(e["ph"])))]
        assert (phases[0], phases[-1]) == ("s", "f")
        assert set(phases[1:-1]) <= {"t"}
