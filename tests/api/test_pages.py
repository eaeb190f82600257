"""Pages from Python: where they go, and against what."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck


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


def test_what_cannot_be_opened_is_not_served() -> None:
    with pytest.raises(ck.ChakraError, match="absent: no such file"):
        ck.view("absent", browser=False)
