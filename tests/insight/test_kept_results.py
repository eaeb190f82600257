"""What the analyses say of recordings and of simulated runs, and how two runs compare."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest

import chakrakit as ck
from chakrakit.commands.inputs import traces_of
from chakrakit.insight import advise, answers
from chakrakit.insight.rank import Table
from support.job_traces import Seconds, usual, write_job
from support.kept_results import checksums, compare
from support.paths import DATA
from support.random_workloads import crowded_case, random_case
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


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(f.name for f in (DATA / "h200").iterdir()))
def test_kept_analyses_of_programs_of_one_device(name: str) -> None:
    """Programs of many kinds: what their machine needs for them, what bounds them, what is advised."""
    run, _ = ck.link(DATA / "h200" / name)
    advice, note = advise(run)
    advised = {"advice": [msgspec.to_builtins(a) for a in advice], "note": note}
    compare(f"analyzed-h200-{name}", checksums(analyzed(run) | advised))


@pytest.mark.parametrize("name", ["clock_1005", "float32", "healthy", "unfused_attention"])
def test_kept_analyses_of_faults(name: str) -> None:
    """One program, once as it should be and three times slow for a known reason."""
    run, _ = ck.link(DATA / "h200_faults" / name)
    healthy, _ = ck.link(DATA / "h200_faults" / "healthy")
    against = ck.compare(healthy, run)
    figures = analyzed(run) | {"compared": against.to_dict(), "changed": shown(against.tables())}
    compare(f"analyzed-fault-{name}", checksums(figures))


@pytest.mark.parametrize(
    "numbers",
    [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)],
    ids=["first", "others"],
)
def test_kept_analyses_of_random_workloads(numbers: range) -> None:
    """Small workloads on small machines, a rank slow in some; each compared with one whose durations vary."""
    figures = {}
    for number in numbers:
        try:
            figures[str(number)] = checksums(random_analysis(number))
        except ck.ChakraError as refusal:
            figures[str(number)] = {"refused": str(refusal)}  # without any compute
    compare(f"analyzed-random-{numbers.start}", figures)


def random_analysis(number: int) -> dict[str, object]:
    """The analysis of a random workload, and how it compares."""
    case = crowded_case if number % 3 == 0 else random_case
    traces, machine, _ = case(number)
    slow = [f"{number % len(traces)}=1.7"] if number % 2 else []
    one = ck.simulate(traces, machine, stragglers=slow).run()
    other = ck.simulate(traces, machine, jitter=0.2, seed=number).run()
    against = ck.compare(one, other)
    compared = {"compared": against.to_dict(), "changed": shown(against.tables())}
    return analyzed(one) | {"faster": faster(one)} | compared


def faster(run: ck.Run) -> object:
    """What would be saved if one thing were twice as fast."""
    return ck.analyze(run, faster={"compute": 2.0, "communication": 3.0}).what_if.to_dict()


def job_seconds(slow: str) -> Seconds:
    """How long the operations of a job take in which something is slow."""

    def seconds(kind: str, replica: int, stage: int, step: int, batch: int) -> float:
        is_slow = {
            "rank": (replica, stage) == (1, 2),
            "stage": stage == 1,
            "step": step == 9,
            "batches": batch == 2,
            "kind": kind == "backward-compute",
        }
        return usual(kind, replica, stage, step, batch) * (1.6 if is_slow.get(slow) else 1.0)

    return seconds


@pytest.mark.parametrize("slow", ["nothing", "rank", "stage", "step", "batches", "kind"])
def test_kept_analyses_of_job_traces(slow: str, tmp_path: Path) -> None:
    """A pipeline of three stages and two replicas, in which nothing or one thing is slow."""
    file = write_job(tmp_path / "job.parquet", job_seconds(slow), stages=3, steps=(5, 9, 12))
    compare(f"analyzed-job-{slow}", checksums(analyzed(traces_of(file, timed=True))))


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
