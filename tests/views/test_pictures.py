"""Pictures of results: bars and curves of what a result says its picture shows."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import chakrakit as ck
from chakrakit.results import Bars, Result


class Lengths(Result, msgspec.Struct):
    short: float
    long: float

    def picture(self) -> Bars:
        return Bars("lengths", [("short", self.short, "1 m"), ("long", self.long, "4 m")])


def test_bars_are_as_long_as_their_values() -> None:
    picture = Lengths(1.0, 4.0).plot()
    widths = [float(w) for w in re.findall(r'<rect[^>]* width="([0-9.]+)"', picture.svg)]
    assert widths[1] / widths[0] == pytest.approx(4, rel=0.02)
    assert re.findall(r">(short|long|1 m|4 m)<", picture.svg) == ["short", "1 m", "long", "4 m"]
    assert picture._repr_svg_() == picture.svg  # what a notebook asks for


def test_collectives_are_drawn_over_their_sizes(tmp_path: Path) -> None:
    picture = ck.collective("all-reduce", "dgx-h100", 8, [1024, 4096]).plot()
    assert repr(picture).startswith("Picture('all-reduce of 8 on dgx-h100'")
    picture.save(tmp_path / "a.svg")
    assert "bus bandwidth, GB/s" in (tmp_path / "a.svg").read_text()


def test_jobs_are_drawn_by_their_slowdown() -> None:
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=1000)
    traces = ck.TraceSet([t.build()])
    jobs = ck.simulate_jobs({"a": traces, "b": traces}, "dgx-h100", compute="measured")
    assert jobs.plot().title == "2 jobs on dgx-h100: time against alone"


def test_what_has_no_picture_says_what_has_one() -> None:
    with pytest.raises(ck.ConfigError, match="ModelList has no picture; runs, analyses, comp"):
        ck.models().plot()


def test_a_simulation_is_drawn_as_its_run() -> None:
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=1000)
    simulated = ck.simulate(ck.TraceSet([t.build()]), "dgx-h100", compute="measured")
    assert simulated.plot().svg == simulated.run().plot().svg
