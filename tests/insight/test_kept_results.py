"""What the analyses say of recordings and of simulated runs, and how two runs compare."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest

import chakrakit as ck
from chakrakit.insight import advise, answers
from chakrakit.insight.rank import Table
from support.kept_results import compare
from support.paths import DATA
from support.recorded import linked

RECORDINGS = ["cnn_ddp_2", "gpt_pp_2", "two_streams", "mlp_ddp_nccl_1", "moe_tiny", "decode_graph"]


@cache
def simulated(machine: str = "dgx-h100", slow: str = "") -> ck.Run:
    """A small pipeline with tensor and data parallelism, simulated."""
    traces = ck.generate(
        model="llama3.1-8b", layers=2, dp=2, tp=2, pp=2, global_batch=8, seq=256
    ).traces
    return ck.simulate(traces, machine, stragglers=[slow] if slow else []).run()


def analyzed(run: ck.Run) -> dict[str, object]:
    """All figures of a run, and the sentences that a reader sees first."""
    analysis = ck.analyze(run)
    sentences = {a.question: [a.figure, a.sentence, a.share] for a in answers(analysis)}
    return {**analysis.to_dict(), "answers": sentences, "tables": shown(analysis.tables())}


def shown(tables: list[Table]) -> dict[str, object]:
    """Tables as people see them, by title."""
    return {table.title: [table.head, *table.rows] for table in tables if table.rows}


@pytest.mark.parametrize("name", RECORDINGS)
def test_kept_analyses_of_recordings(name: str) -> None:
    compare(f"analyzed-{name}", analyzed(linked(name)))


def test_kept_analyses_of_simulated_runs() -> None:
    figures = {"plain": analyzed(simulated()), "slow rank": analyzed(simulated(slow="3=2"))}
    compare("analyzed-simulated", figures)


def test_kept_comparisons() -> None:
    pairs = {
        "slow rank": (simulated(), simulated(slow="3=2")),
        "machines": (simulated(), simulated("dgx-a100")),
        "recordings": (linked("gpt_pp_2"), linked("cnn_ddp_2")),
    }
    compared = {name: ck.compare(*runs) for name, runs in pairs.items()}
    figures = {name: c.to_dict() | {"tables": shown(c.tables())} for name, c in compared.items()}
    compare("compared", figures)


def test_kept_analyses_of_served_streams(tmp_path: Path) -> None:
    """One engine, and prompts apart from outputs; and how the two compare."""
    stream = "poisson{rate=20,n=40,prompt=lognormal:300:1,output=lognormal:20:1,seed=2}"
    settings = {"one": {}, "apart": {"prefill": 1, "decode": 1}}
    for name, setting in settings.items():
        ck.serve(
            "llama-3.1-8b",
            "dgx-h100",
            stream,
            output=tmp_path / name,
            compute="roofline",
            **setting,
        )
    runs = {name: ck.read(tmp_path / name) for name in settings}
    compared = ck.compare(*runs.values())
    figures = {name: analyzed(run) for name, run in runs.items()}
    compare("analyzed-served", figures | {"compared": shown(compared.tables())})


@pytest.mark.parametrize(
    "name", ["graph_attention", pytest.param("resnet18_fp32", marks=pytest.mark.slow)]
)
def test_kept_advice_on_recorded_programs(name: str) -> None:
    """Every change that is tried on a program of one device, and what it would save."""
    advice, note = advise(ck.link(DATA / "h200" / name).run)
    changes = {a.what: msgspec.to_builtins(a) for a in advice}
    compare(f"advised-{name}", {"note": note, "order": list(changes), **changes})
