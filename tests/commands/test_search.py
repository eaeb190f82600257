"""`chakra search` from the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.commands.search import print_script, print_served
from chakrakit.exploration.search import (
    ScriptPlan,
    ScriptSearchResult,
    ServingPlan,
    ServingSearchResult,
)
from chakrakit.exploration.search.script_search import RefusedFlags


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
        run(capfd, "simulate", tmp_path / "best", "--machine", found["machine"], "--json")
    )
    assert again["makespan_ns"] == best["step_ns"]


@pytest.mark.slow
def test_search_for_people(capfd) -> None:
    told = run(capfd, *SEARCH)
    assert re.search(r"^best +\d", told, re.M)
    assert "longer:" in told
    assert "exhaustive, by step, on dgx-h100:2" in told


def test_search_refuses_words_for_numbers(capfd) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in SEARCH if a not in ("--tp", "2,8")] + ["--tp", "two"])
    assert stopped.value.code == 2
    assert "--tp two: give whole numbers with commas" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": None}, "give --model or --capture, and not both"),
        ({"model": "gpt3-125m", "slo": "ttft=9"}, "--slo is for --serve"),
        ({"model": "gpt3-125m", "serve": True}, "--serve needs --requests and --slo"),
    ],
)
def test_a_search_wants_to_know_what_for(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ck.ConfigError, match=said):
        ck.search(gpus=8, machine="dgx-h100", **given)


def serving_plan(**fields: object) -> ServingPlan:
    zeros = {name: 0 for name in ServingPlan.__struct_fields__ if name not in ("meets", "why")}
    return ServingPlan(**{**zeros, "meets": True, **fields})


def test_engines_are_spelled_by_their_number_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    found = ServingSearchResult(
        best=serving_plan(devices=4, tp=2, pp=1, ep=1, replicas=2, attained=1.0, why="cheapest"),
        runners_up=[
            serving_plan(devices=8, prefill=1, prefill_tp=4, decode=2, decode_tp=2, why="dearer"),
            serving_plan(
                devices=8, tp=2, pp=2, ep=2, replicas=1, price_per_hour=12.5, why="slower"
            ),
        ],
        served=9,
        given_up=2,
        over_memory=1,
        machine="dgx-h100",
        level="ttft<=90ms",
        attain=0.99,
        command="chakra serve --tp 2",
    )
    print_served(found)
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines.pop(0)
        == "best: 2×tp2 on 4 devices of dgx-h100: 100.0% of the requests within ttft<=90ms"
    )
    engines = [line[: len(lines[0])].split()[2:6] for line in lines[1:4]]
    assert engines == [
        ["2×tp2", "0", "0", "100.0%"],
        ["1×tp4", "+", "2×tp2", "0"],
        ["1×tp2", "pp2", "ep2", "0"],
    ]
    assert lines[-2:] == [
        "9 ways served, 2 of them given up when they had missed ttft<=90ms; 1 do not fit; on dgx-h100",
        "again: chakra serve --tp 2",
    ]


def script_plan(tp: int, step_ms: float, why: str) -> ScriptPlan:
    return ScriptPlan(
        gpus=8,
        flags={"tp": tp},
        command=f"python t.py --tp {tp}",
        step_ns=step_ms * 1e6,
        value=step_ms,
        mfu=0.4 if tp == 2 else None,
        memory_bytes=3 << 30,
        parts={},
        why=why,
    )


def test_plans_reasons_refusals_and_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found = ScriptSearchResult(
        best=script_plan(2, 5.0, "80 % compute"),
        runners_up=[script_plan(4, 7.5, "2.5 ms longer")],
        evaluated=2,
        over_memory=0,
        refused=[RefusedFlags(gpus=8, flags={"tp": 3}, error="3 does not divide 16 heads")],
        machine="dgx-h100",
        objective="step",
    )
    print_script(found, "best", "h100")
    lines = capsys.readouterr().out.splitlines()
    assert lines.pop(0) == "best: 5.0 ms a step with 8 gpus tp=2 on dgx-h100"
    assert [line.split() for line in lines[:3]] == [
        ["gpus", "tp", "step", "ms", "MFU", "%", "GiB"],
        ["best", "8", "2", "5.0", "40.0", "3.0"],
        ["2", "8", "4", "7.5", "3.0"],
    ]
    assert lines[3:] == [
        "MFU: FLOPs of the model, without recomputation, of the devices' peak",
        "best: 80 % compute",
        "2: 2.5 ms longer",
        "refused: 8 gpus tp=3: 3 does not divide 16 heads",
        "2 combinations simulated, 1 refused; by step, on dgx-h100",
        "again: chakra capture --ranks 8 --device h100 -o w -- python t.py --tp 2",
        "again: chakra simulate best --machine dgx-h100",
    ]


def test_the_objective_is_in_the_answer_and_in_the_table(capfd) -> None:
    words = [str(a) for a in SEARCH if a not in ("--tp", "2,8")]
    told = run(capfd, *words, "--tp", "8", "--objective", "price", "--runners-up", "0")
    assert told.startswith("best: $0.0")
    assert told.splitlines()[2].split()[-1] == "price"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"serve": True, "objective": "energy"}, "--objective is for a search without --serve"),
        ({"serve": True, "device": "h100"}, "--device is for --capture"),
        ({"device": "h100"}, "--device is for --capture"),
    ],
)
def test_options_of_another_search_are_refused_by_their_flags(options: Any, message: str) -> None:
    with pytest.raises(ck.ConfigError, match=message):
        ck.search("gpt3-125m", 1, "dgx-h100", **options)


def test_a_plan_that_leaves_devices_idle_says_how_many_it_has(capfd) -> None:
    few = ("--tp", 1, "--pp", 1, "--micro-batch", 1, "--data", "ddp", "--recompute", "none")
    some = ("search", "--model", "gpt3-125m", "--machine", "dgx-h100", "--seq", 128, *few)
    assert " on 1 of the 8 devices of dgx-h100\n" in run(capfd, *some, "--gpus", 1)
    assert " on dgx-h100\n" in run(capfd, *some, "--gpus", 8)
