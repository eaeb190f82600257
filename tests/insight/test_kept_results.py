"""What the analyses say of recordings and of simulated runs, and how two runs compare."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.insight import answers
from support.kept_results import compare
from support.recorded import linked

RECORDINGS = ["cnn_ddp_2", "gpt_pp_2", "two_streams", "mlp_ddp_nccl_1", "moe_tiny", "decode_graph"]


def simulated(machine: str = "dgx-h100", **options: object) -> ck.Run:
    """A small pipeline with tensor and data parallelism, simulated."""
    traces = ck.generate(
        model="llama3.1-8b", layers=2, dp=2, tp=2, pp=2, global_batch=8, seq=256
    ).traces
    return ck.simulate(traces, machine, **options).run()


def analyzed(run: ck.Run) -> dict[str, object]:
    """All figures of a run, and the sentences that a reader sees first."""
    analysis = ck.analyze(run)
    sentences = {a.question: [a.figure, a.sentence, a.share] for a in answers(analysis)}
    return {**analysis.to_dict(), "answers": sentences}


@pytest.mark.parametrize("name", RECORDINGS)
def test_kept_analyses_of_recordings(name: str) -> None:
    compare(f"analyzed-{name}", analyzed(linked(name)))


def test_kept_analyses_of_simulated_runs() -> None:
    figures = {"plain": analyzed(simulated()), "slow rank": analyzed(simulated(stragglers=["3=2"]))}
    compare("analyzed-simulated", figures)


def test_kept_comparisons() -> None:
    figures = {
        "slow rank": ck.compare(simulated(), simulated(stragglers=["3=2"])).to_dict(),
        "machines": ck.compare(simulated(), simulated("dgx-a100")).to_dict(),
        "recordings": ck.compare(linked("gpt_pp_2"), linked("cnn_ddp_2")).to_dict(),
    }
    compare("compared", figures)
