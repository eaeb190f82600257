"""`chakra report`: where the page goes, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import chakra, data, succeeded


def test_a_page_is_written_and_its_address_printed(runs: Path, tmp_path: Path) -> None:
    done = chakra("report", runs / "fast", "-o", tmp_path / "a.html")
    assert done.stderr.strip().endswith((tmp_path / "a.html").as_uri())
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")


def test_markdown_has_its_own_name(runs: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert chakra("report", runs / "fast", "--md").exit_code == 0
    assert (tmp_path / "report.md").read_text().startswith("# ")


def test_a_page_that_is_named_as_markdown_is_markdown(runs: Path, tmp_path: Path) -> None:
    assert chakra("report", runs / "fast", "-o", tmp_path / "a.md").exit_code == 0
    assert (tmp_path / "a.md").read_text().startswith("# ")


def test_json_is_printed_and_the_page_written_only_where_it_is_named(
    runs: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert data("report", runs / "fast")["span_ns"] == 5000
    assert list(tmp_path.iterdir()) == []
    done = chakra("report", runs / "slow", "--against", runs / "fast", "-o", "b.html", "--json")
    assert json.loads(done.stdout)["span_ns"] == 8000
    assert "Against" in (tmp_path / "b.html").read_text()


def test_a_comparison_without_a_page_is_not_dropped_in_silence(runs: Path) -> None:
    done = chakra("report", runs / "slow", "--against", runs / "fast", "--json")
    assert "only a page says what differs" in done.stderr


@pytest.fixture
def run() -> ck.Run:
    t = ck.TraceBuilder()
    t.comp("work", duration_ns=4000, start_ns=9)
    return ck.Run([t.build()])


def test_the_name_follows_the_format(
    run: ck.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ck.report(run).span_ns == ck.report(run, md=True).span_ns == 4000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.md"]


def test_another_run_is_compared_with(run: ck.Run, tmp_path: Path) -> None:
    ck.write(run, tmp_path / "other")
    ck.report(run, tmp_path / "a.html", against=tmp_path / "other")
    assert str(tmp_path / "other") in (tmp_path / "a.html").read_text()


def test_the_page_of_a_campaign_is_written_by_the_same_command(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "step_seconds: 10\nsteps: 8640\ncluster: {nodes: 16}\n"
        "pool: {nodes: 64, slow_share: 0.2, sweep_limit: 1.02}\nretries: {bad: 1}\n"
    )
    succeeded("report", job, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Which nodes were slow?" in page
    assert "Does starting again help?" in page
    assert "is not a run" in chakra("report", job, "--json").stderr
