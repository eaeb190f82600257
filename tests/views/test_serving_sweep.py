"""A study that serves on one page: the best points, and throughput against latency."""

import pyarrow as pa

from chakrakit.views.sweep_report import serving_sections

ROW = {
    "tp": 1,
    "rate_scale": 1,
    "status": "done",
    "attained": 1.0,
    "output_tokens_per_s": 4321.0,
    "output_tokens_per_s_per_device": 4321.0,
    "goodput": 5.0,
    "ttft_p99_ms": 12.0,
    "tpot_p99_ms": 3.0,
    "e2e_p99_ms": 99.0,
    "mean_batch": 7.125,
    "preemptions": 0,
}


def sections(*changes):
    rows = [{**ROW, **change} for change in changes]
    return {
        t: "".join(map(str, parts))
        for t, parts in serving_sections(pa.Table.from_pylist(rows)).items()
    }


def test_the_best_point_comes_first_with_its_figures():
    best = sections({"tp": 2, "output_tokens_per_s_per_device": 1.0}, {"tp": 1})[
        "Best by throughput per device"
    ]
    cells = best.split("<tbody>")[1]
    assert cells.index("4,321") < cells.index("<td>2</td>")
    assert "7.125" in cells


def test_every_latency_has_its_front():
    content = sections({"rate_scale": 1}, {"rate_scale": 8, "ttft_p99_ms": 20.0})
    charts = content["Throughput against latency"]
    assert charts.count("<figure>") == 3
    assert "Time to the first token against throughput" in charts
    assert "rate_scale 8: 20.0 ms" in charts


def test_nothing_done_is_nothing_shown():
    content = sections({"status": "failed"})
    assert set(content.values()) == {""}
