"""What `chakra search --serve` prints."""

from __future__ import annotations

import pytest

from chakrakit.cli.explore.served_plans import print_served
from chakrakit.studies.search import ServingPlan, ServingSearchResult


def plan(**fields: object) -> ServingPlan:
    zeros = {name: 0 for name in ServingPlan.__struct_fields__ if name not in ("meets", "why")}
    return ServingPlan(**{**zeros, "meets": True, **fields})


def test_engines_are_spelled_by_their_number_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    found = ServingSearchResult(
        best=plan(devices=4, tp=2, pp=1, ep=1, replicas=2, attained=1.0, why="cheapest"),
        runners_up=[
            plan(devices=8, prefill=1, prefill_tp=4, decode=2, decode_tp=2, why="dearer"),
            plan(devices=8, tp=2, pp=2, ep=2, replicas=1, price_per_hour=12.5, why="slower"),
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
