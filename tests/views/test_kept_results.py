"""What pages and timelines contain, to the letter."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chakrakit as ck
from chakrakit.insight import LinksUse, LinkUse
from chakrakit.published import list_studies, recorded_study
from chakrakit.views import (
    bounds_page,
    campaign_html,
    first_page,
    html_report,
    markdown_comparison,
    markdown_report,
    study_chart,
    study_html,
    study_page,
    sweep_html,
)
from chakrakit.views.forest import Dot, forest_chart
from chakrakit.views.network_map import network_map
from chakrakit.views.plots import front, grid
from support.commands import succeeded
from support.kept_results import checksum, checksums, compare
from support.paths import ROOT
from support.random_workloads import random_case
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


STUDIES = ["A01", "A18", "A28", "A37", "A50", "B02", "B06", "B25"]


def test_kept_pages_of_studies() -> None:
    """The pages and charts of the documentation, and the same for a browser."""
    results = {name: recorded_study(name) for name in STUDIES}
    for name, result in results.items():
        assert study_page(result) == (ROOT / f"docs/studies/{name}.md").read_text()
        assert study_chart(result) == (ROOT / f"docs/studies/{name}.svg").read_text()
    assert first_page(list_studies()) == (ROOT / "docs/studies/README.md").read_text()
    pages = {name: study_html(result) for name, result in results.items()}
    compare("drawn-studies", checksums(pages | {"bounds": bounds_page(list(results.values()))}))


@pytest.mark.parametrize("name", ["byterobust", "slow_nodes"])
def test_kept_pages_of_campaigns(name: str, tmp_path: Path) -> None:
    """With few histories of jobs that are in the examples."""
    file = ROOT / "examples" / "campaigns" / f"{name}.yaml"
    result = ck.campaign(file, histories=3, seed=4)
    compare(f"drawn-campaign-{name}", checksums(pieces_of(campaign_html(result))))


def pieces_of(page: str) -> dict[str, object]:
    """The pictures and tables of a page, and all that it says."""
    return {
        "pictures": re.findall(r"<svg.*?</svg>", page, re.DOTALL),
        "tables": re.findall(r"<table.*?</table>", page, re.DOTALL),
        "words": re.sub(
            r"<script.*?</script>|<style.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL
        ),
    }


def test_kept_pages_of_sweeps() -> None:
    """A table of steps with two machines, failures and points that do not fit; and one of served streams."""
    draw = random.Random(3)
    axes = [(tp, data, m) for tp in (1, 2, 4) for data in ("ddp", "fsdp") for m in ("a", "b")]
    steps = [
        {"plan.tp": tp, "plan.data": data, "machine": m, "passes": "none",
         "status": "failed" if draw.random() < 0.1 else "done", "error": "too large",
         "key": str(i), "ranks": 8,
         "step_ns": draw.uniform(1e6, 9e6), "tokens_per_s": draw.uniform(1e3, 1e5), "mfu": draw.random(),
         "exposed_comm_ns": draw.uniform(0, 1e6), "idle_ns": draw.uniform(0, 1e6),
         "memory_bytes": draw.randrange(1 << 30, 90 << 30), "fits": draw.random() < 0.8,
         "energy_joules": draw.uniform(10, 99), "price": draw.uniform(0.1, 2)}
        for i, (tp, data, m) in enumerate(axes)
    ]  # fmt: skip
    served = [
        {"tp": tp, "rate_scale": scale, "machine": "m", "status": "done", "error": None, "key": str(tp),
         "attained": draw.random(), "output_tokens_per_s": draw.uniform(10, 9e3),
         "output_tokens_per_s_per_device": draw.uniform(10, 3e3), "goodput": draw.uniform(0, 9),
         "ttft_p99_ms": draw.uniform(9, 999), "tpot_p99_ms": draw.uniform(1, 60),
         "e2e_p99_ms": draw.uniform(99, 9e3), "mean_batch": draw.uniform(1, 99),
         "preemptions": draw.randrange(9)}
        for tp in (1, 2, 8) for scale in (1, 2, 4)
    ]  # fmt: skip
    tables = {"steps": steps, "served": served}
    pages = {name: sweep_html(name, pa.Table.from_pylist(rows)) for name, rows in tables.items()}
    compare("drawn-sweeps", {name: checksums(pieces_of(page)) for name, page in pages.items()})


def random_run(number: int) -> ck.Run:
    """A small workload on a small machine, with a slow rank and durations that vary."""
    traces, machine, _ = random_case(number)
    return ck.simulate(traces, machine, stragglers=["1=1.5"], jitter=0.1, seed=number).run()


@pytest.mark.parametrize(
    "numbers",
    [range(1, 5), pytest.param(range(5, 40), marks=pytest.mark.slow)],
    ids=["first", "others"],
)
def test_kept_views_of_random_runs(numbers: range, tmp_path: Path) -> None:
    """Reports, timelines of both kinds and a comparison; some workloads are without any compute."""
    figures = {}
    for number in numbers:
        try:
            runs = random_run(number), random_run(number + 1)
        except ck.ChakraError as refusal:
            figures[str(number)] = {"refused": str(refusal)}
        else:
            figures[str(number)] = checksums(viewed(*runs, tmp_path))
    compare(f"drawn-random-{numbers.start}", figures)


def viewed(run: ck.Run, other: ck.Run, folder: Path) -> dict[str, Any]:
    """A run in all forms, beside another."""
    analysis, compared, facts = ck.analyze(run), ck.compare(run, other), {"": "a run", "seed": "3"}
    figures: dict[str, Any] = pieces_of(html_report(analysis, facts, compared))
    figures["markdown"] = markdown_report(analysis, facts, compared)
    figures["compared"] = markdown_comparison(compared)
    for name, form in (("t.json", {}), ("t.pftrace", {}), ("spans.json", {"to": "otlp"})):
        ck.export(run, folder / name, **form)
        figures[name] = (folder / name).read_bytes().decode("latin1")
    return figures
