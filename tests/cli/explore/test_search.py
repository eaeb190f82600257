"""`chakra search` from the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chakrakit.cli import main


def run(capfd, *arguments: object) -> str:
    main([str(a) for a in arguments], standalone_mode=False)
    return capfd.readouterr().out


SEARCH = [
    "search",
    "--model",
    "llama3.1-8b",
    "--gpus",
    16,
    "--machine",
    "dgx-h100",
    "--seq",
    512,
    "--tp",
    "2,8",
    "--pp",
    1,
    "--micro-batch",
    1,
    "--recompute",
    "none",
]


@pytest.mark.slow
def test_search_answers_with_the_plan_and_the_traces(capfd, tmp_path: Path) -> None:
    found = json.loads(run(capfd, *SEARCH, "-o", tmp_path / "best", "--json"))
    assert {"best", "runners_up", "evaluated", "pruned"} <= found.keys()
    best = found["best"]
    assert best["tp"] * best["pp"] * best["cp"] * best["dp"] == 16
    assert all(r["why"] for r in found["runners_up"])
    again = json.loads(
        run(
            capfd,
            "simulate",
            tmp_path / "best",
            "--machine",
            found["machine"],
            "--compute",
            "roofline",
            "--json",
        )
    )
    assert again["makespan_ns"] == best["step_ns"]


@pytest.mark.slow
def test_search_for_people(capfd) -> None:
    told = run(capfd, *SEARCH)
    assert re.search(r"best +16 +\d", told)
    assert "longer:" in told
    assert "exhaustive, by step, on dgx-h100:2" in told


def test_search_refuses_words_for_numbers(capfd) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in SEARCH[:-2]] + ["--tp", "two"])
    assert stopped.value.code == 2
    assert "--tp two: give whole numbers with commas" in capfd.readouterr().err
