"""What the app answers about a recording and a simulated run, question by question."""

from __future__ import annotations

from typing import Any

import pytest

import chakrakit as ck
from chakrakit.views.app.session import SECTIONS
from support.kept_results import checksums, compare
from support.random_workloads import crowded_case
from support.recorded import linked

WORDS = ["gemm", "rank=1", "name~^a", "duration>2us", "duration<1ms c", "k", "s1"]
PAINTS = ["class", "name", "change"]


def simulated() -> ck.Run:
    """A small workload whose communication crowds a machine."""
    traces, machine, _ = crowded_case(3)
    return ck.simulate(traces, machine, stragglers=["1=1.5"], detail="full").run()


def questions(run: ck.Run) -> list[tuple[str, dict[str, Any]]]:
    """Windows, rows and searches all over a run."""
    rank = run.ranks[0]
    start, end = int(run.start(rank).min()), int(run.end(rank).max())
    length = end - start
    asked: list[tuple[str, dict[str, Any]]] = [("session", {}), ("tabs", {}), ("offered", {})]
    for part in range(4):
        window = {"from": start + part * length // 5, "to": start + (part + 2) * length // 5}
        asked += [("path", window), ("network", window | {"width": 40})]
        for r in run.ranks[:2]:
            lines = {"rank": r, "first": 0, "last": 5, **window}
            asked += [
                ("rank", {"rank": r}),
                ("flame", lines | {"width": 9}),
                ("area", lines | {"width": 9}),
            ]
            asked += [("window", lines | {"width": width}) for width in (7, 200)]
            asked += [("window", lines | {"width": 50, "paint": paint}) for paint in PAINTS]
            time = window["from"] + length // 7
            asked += [("at", {"rank": r, "track": t, "depth": 0, "time": time}) for t in (0, 1)]
    nodes = len(run.body(rank))
    for row in range(0, nodes, max(1, nodes // 9)):
        asked += [
            ("node", {"rank": rank, "row": row}),
            ("around", {"rank": rank, "row": row, "hops": 2}),
        ]
    asked += [("search", {"text": word}) for word in WORDS]
    return asked


@pytest.mark.parametrize("name", ["recorded", "simulated"])
def test_kept_answers(client: Any, name: str) -> None:
    """Every kind of question, answers and refusals alike."""
    run = linked("gpt_pp_2") if name == "recorded" else simulated()
    app = client(run).analyzed()
    answers = {}
    for question, given in questions(run):
        answer = app.web.get(f"/api/{question}", params=given)
        answers[f"{question} {given}"] = [answer.status_code, answer.json()]
    for section in SECTIONS:
        answer = app.web.get("/api/section", params={"name": section})
        answers[f"section {section}"] = [answer.status_code, answer.json()]
    compare(f"answered-{name}", checksums(answers))
