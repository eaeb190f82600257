"""A study that serves: points are streams of requests, and fronts are throughput against latency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep import findings, grid, read_study, sweep
from chakrakit.serving import serve
from chakrakit.views.sweep_report import sweep_html

STUDY = """\
name: served
workload:
  serve:
    model: llama-3.1-8b
    requests: poisson{rate=10,n=30,prompt=256,output=16}
    slo: ttft=60,tpot=30
axes:
  rate_scale: [1, 8]
  engine.max_num_seqs: [4, 64]
machines: [dgx-h100]
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("served")
    (folder / "study.yaml").write_text(STUDY)
    done = sweep(read_study(folder / "study.yaml"), folder / "out", jobs=1)
    assert (done.points, done.done, done.failed) == (4, 4, 0)
    again = sweep(read_study(folder / "study.yaml"), folder / "out", jobs=1)
    assert again.reused == 4
    return pq.read_table(done.table)


@pytest.mark.slow
def test_a_row_says_what_serve_says(table: Any) -> None:
    row = table.to_pylist()[2]
    assert (row["rate_scale"], row["engine.max_num_seqs"]) == (8, 4)
    alone = serve(
        "llama-3.1-8b",
        "dgx-h100",
        "poisson{rate=10,n=30,prompt=256,output=16}",
        "vllm{max_num_seqs=4}",
        rate_scale=8,
        slo="ttft=60,tpot=30",
    )
    assert (row["ttft_p95_ms"], row["ttft_p99_ms"]) == (alone.ttft_ms.p95, alone.ttft_ms.p99)
    assert row["tpot_mean_ms"] == alone.tpot_ms.mean
    assert (row["goodput"], row["attained"]) == (alone.goodput, alone.attained)
    assert row["output_tokens_per_s_per_device"] == alone.output_tokens_per_s / alone.devices


@pytest.mark.slow
def test_fronts_are_throughput_against_latency(table: Any) -> None:
    """Configurations are what is not the load; nothing on a front is beaten in both."""
    fronts = {f.latency: f for f in findings.latency_fronts(table)}
    found = fronts["e2e_p99_ms"]
    assert list(found.configurations)
    assert all(len(c) == 2 for c in found.configurations.values())
    for one in found.best:
        for row in table.to_pylist():
            faster = row["e2e_p99_ms"] < one["e2e_p99_ms"]
            more = row[findings.THROUGHPUT] > one[findings.THROUGHPUT]
            assert not (faster and more)


@pytest.mark.slow
def test_the_page_shows_them(table: Any) -> None:
    page = sweep_html("served", table)
    assert "Throughput against latency" in page
    assert "Time to the first token against throughput" in page
    assert "Fastest that fit" not in page


def changed(tmp_path: Path, old: str, new: str) -> Any:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace(old, new))
    return grid(read_study(path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_scale", "rate_skale", r"study.yaml:8: .*'rate_skale'.*rate_scale"),
        ("    requests:", "    first: 3 #", r"study.yaml:3: serve: `requests` is missing"),
        ("machines:", "ranks: 8\nmachines:", r"ranks is not for a study that serves"),
        (
            "[4, 64]",
            "[0, 64]",
            r"max_requests is 0; it must be 1 or more; or say `impossible: skip`",
        ),
        ("rate_scale: [1, 8]", "tp: [1, 16]", "needs 16 devices; dgx-h100 has 8"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        changed(tmp_path, old, new)


def test_what_cannot_be_is_left_out_when_the_study_says_so(tmp_path: Path) -> None:
    text = STUDY.replace("rate_scale: [1, 8]", "tp: [1, 3]") + "impossible: skip\n"
    (tmp_path / "study.yaml").write_text(text)
    made = grid(read_study(tmp_path / "study.yaml"))
    assert (len(made.points), made.skipped) == (2, 2)


def test_another_content_of_a_file_is_another_point(tmp_path: Path) -> None:
    """Requests stand beside the study; their content decides a point's key."""
    lines = '{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}\n'
    keys = []
    for times in (1, 2):
        (tmp_path / "r.jsonl").write_text(lines * times)
        made = changed(tmp_path, "poisson{rate=10,n=30,prompt=256,output=16}", "r.jsonl")
        keys.append(made.points[0].key)
    assert keys[0] != keys[1]


def test_streams_of_one_token_have_a_page_without_a_time_per_token(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("output=16", "output=1"))
    done = sweep(read_study(tmp_path / "study.yaml"), tmp_path / "out", jobs=1)
    measured = pq.read_table(done.table)
    assert measured["tpot_p99_ms"].to_pylist() == [None] * 4
    shown = {f.latency: len(f.best) for f in findings.latency_fronts(measured)}
    assert shown["tpot_p99_ms"] == 0 < shown["ttft_p99_ms"]
    assert "Time to the first token" in sweep_html("served", measured)
