"""ASTRA-sim's recorded answers, rank by rank, with and without folding."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from chakrakit.errors import ChakraError
from chakrakit.simulator.astra import log_lines
from support import paths
from support.astra_cases import case_of, coll, figures, network, read_cases, run, system

DATA = paths.DATA / "astra"
RECORDED = list(read_cases(DATA / "golden.jsonl.gz"))
ANSWERED = [(case, result) for case, result in RECORDED if "cycles" in result]
UNANSWERED = [case for case, result in RECORDED if "cycles" not in result]
SWEEP = list(csv.DictReader((DATA / "hgx_h100_allreduce_sweep.csv").open()))


@pytest.mark.parametrize(("case", "result"), ANSWERED, ids=[case["name"] for case, _ in ANSWERED])
def test_cycles_and_exposed_communication_are_astra_sims(case: Any, result: Any) -> None:
    expected = (result["cycles"], result["exposed"])
    assert figures(run(case, fold=True)) == expected
    assert figures(run(case, fold=False)) == expected


@pytest.mark.parametrize("case", UNANSWERED, ids=[case["name"] for case in UNANSWERED])
def test_what_it_never_answers_is_an_error(case: Any) -> None:
    with pytest.raises(ChakraError, match=r"ASTRA-sim never returns|no Ring of 2 ranks"):
        run(case)


@pytest.mark.parametrize("row", SWEEP, ids=lambda r: f"{r['npus']}-{r['bytes']}-{r['backend']}")
def test_the_hgx_h100_sweep(row: dict[str, str]) -> None:
    net = {
        "topology": ["Switch"],
        "npus_count": [int(row["npus"])],
        "bandwidth": [400],
        "latency": [936.25],
    }
    ranks = [[coll(0, int(row["bytes"]))] for _ in range(int(row["npus"]))]
    sys = system("ring", active_chunks_per_dimension=2, local_mem_bw=3350)
    result = run(case_of(ranks, net, sys, backend=row["backend"]))
    assert figures(result)[0] == int(row["cycles_ns"])


@pytest.mark.parametrize(
    ("case", "result"),
    [pair for pair in ANSWERED if pair[1].get("stats")],
    ids=[case["name"] for case, result in ANSWERED if result.get("stats")],
)
def test_statistics_lines_hold_the_recorded_figures(case: Any, result: Any) -> None:
    """Recorded statistics miss what the asynchronous log lost: what is there must agree."""
    lines = list(log_lines(run(case)))
    for rank, stats in enumerate(result["stats"]):
        mine = [line for line in lines if line.startswith(f"sys[{rank}],")]
        for name, value in stats.items():
            text = f"{value:.3f}" if isinstance(value, float) else str(value)
            assert any(line.startswith(f"sys[{rank}], {name}: {text}") for line in mine), name


def test_the_regression_figure_of_its_own_tests() -> None:
    """16 ranks, ring all-gather of 1 MB: documented as 323,560 cycles."""
    ranks = [[coll(0, 1 << 20, kind="all_gather")] for _ in range(16)]
    assert figures(run(case_of(ranks, network(("Ring", 16)))))[0] == 323_560
