"""What pages and timelines contain, to the letter."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.insight import LinksUse, LinkUse
from chakrakit.views.forest import Dot, forest_chart
from chakrakit.views.network_map import network_map
from chakrakit.views.plots import front, grid
from support.commands import succeeded
from support.kept_results import checksum, compare
from support.recorded import linked


@pytest.mark.parametrize("name", ["gpt_pp_2", "cnn_ddp_2", "two_streams"])
def test_kept_pages_of_recordings(name: str, tmp_path: Path) -> None:
    ck.write(linked(name), tmp_path / "run")
    page, timeline = tmp_path / "page.html", tmp_path / "timeline.json"
    succeeded("report", tmp_path / "run", "-o", page)
    succeeded("export", tmp_path / "run", timeline)
    text = page.read_text().replace(str(tmp_path), "")  # advice names the folder in its commands
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    figures = {
        "pictures": [checksum(p) for p in pictures],
        "tables": [checksum(t) for t in tables],
        "timeline": timeline.read_text().replace(str(tmp_path), ""),
    }
    compare(f"drawn-{name}", {k: list(v) if isinstance(v, list) else v for k, v in figures.items()})


def test_kept_spans(tmp_path: Path) -> None:
    """A recording as OpenTelemetry's spans, whose ids come from names and places."""
    ck.write(linked("gpt_pp_2"), tmp_path / "run")
    succeeded("export", tmp_path / "run", tmp_path / "spans.json", "--to", "otlp")
    lines = (tmp_path / "spans.json").read_text().splitlines()
    compare("drawn-spans", {f"rank {i}": json.loads(line) for i, line in enumerate(lines)})


def test_kept_forest_plots() -> None:
    """Dots with intervals around 1, one that is pale, one that is not a number; narrow and wide axes."""
    dots = [
        Dot("well", 1.4, 1.2, 1.7),
        Dot("hardly", 0.97, 0.9, 1.02, pale=True),
        Dot("nothing", math.nan, 0.1, 9.0),
    ]
    wide = [*dots, Dot("far", 40.0, 0.3, 900.0)]
    plots = {
        "narrow": forest_chart("Gains", dots, "times as fast", (1.1, 1.6)),
        "wide": forest_chart("Gains", wide, "times as fast", (2.0, 5.0)),
    }
    compare("drawn-forests", {n: re.findall(r"<[^>]*>[^<]*", text) for n, text in plots.items()})
    text = plots["narrow"]
    (at_one,) = re.findall(
        r'<line x1="([\d.]+)" x2="\1" y1="32" y2="[\d.]+" stroke="#000" st', text
    )
    low, high = math.log(0.9 / 1.1), math.log(1.7 * 1.1)  # the ends of the axis are a tenth beyond
    assert float(at_one) == pytest.approx(380 + 500 * -low / (high - low), abs=0.01)


def test_kept_grids_fronts_and_maps() -> None:
    """Pictures of sweeps and of machines, shape by shape."""
    cells = {(0, 0): 3.0, (0, 1): 7.5, (1, 0): 1.0, (1, 2): 12.25}
    rows, columns = ["dgx-h100", "a machine whose name is long"], ["tp=1", "tp=2", "tp=4"]
    points = {
        "fsdp": [(1.0, 9.0, "a"), (2.0, 4.0, "b"), (3.5, 3.0, "c")],
        "ddp": [(1.5, 8.0, "d"), (3.0, 6.0, "e")],
    }
    best = [(1.0, 9.0, "a"), (2.0, 4.0, "b"), (3.5, 3.0, "c")]
    ends = [("device 0", "switch 0.0"), ("device 1", "switch 0.0"), ("switch 0.0", "switch 1.0")]
    uses = [
        LinkUse(
            link=f"{a}-{b}", src=a, dst=b, rank=i - 1, bytes=1e6 * (i + 1), bandwidth=1e9,
            utilization=(0.0, 0.4, 1.0)[i % 3],
        )
        for i, (a, b) in enumerate([*ends, *((b, a) for a, b in ends)])
    ]  # fmt: skip
    pictures = {
        "grid": grid(rows, columns, cells, "{:.1f} ms".format),
        "one cell": grid(rows[:1], columns[:1], {(0, 0): 2.0}, str),
        "front": front(points, best, "{:g} $".format, "{:g} ms".format),
        "map": network_map(LinksUse(links=uses, whole=False), "all along"),
        "ring": network_map(LinksUse(links=uses[:1], whole=True), ""),
    }
    shapes = {name: re.findall(r"<[^>]*>[^<]*", str(text)) for name, text in pictures.items()}
    compare("drawn-pictures", {name: [len(s), checksum("".join(s))] for name, s in shapes.items()})
