"""Edits of a run that stays in memory: what the command lines that are written give, at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes import Unsync
from chakrakit.simulator.results import EditSession
from support.commands import data, succeeded
from support.recorded import linked

GEMM = "edit{scale=0.5, classes=[gemm]}"


@pytest.fixture(scope="module")
def folded() -> ck.Run:
    """Sixteen ranks in two classes: two pipeline stages, with all-reduces and messages."""
    traces = ck.generate(
        model="gpt3-125m", dp=4, tp=2, pp=2, seq=256, global_batch=8, micro_batch=1
    ).traces
    return ck.simulate(traces, "dgx-h100:2").run()


def again(run: ck.Run, texts: list[str], folder: Path) -> float:
    """The makespan that the written command lines come to, in ns."""
    path = folder / "run"
    ck.write(run, path)
    session = EditSession(run)
    *lines, _ = session.command_lines(session.edited(texts).edits, str(path))
    for line in lines[:-1]:
        succeeded(*shlex.split(line)[1:])
    return float(data(*shlex.split(lines[-1])[1:])["makespan_ns"])


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "texts",
    [
        [GEMM, "edit{add_us=30, names=[layers.1]}"],
        ["edit{scale=3, classes=[communication]}"],
        ["comm{action=offload, stream=77, groups=[dp]}", "edit{scale=0.1, classes=[attention]}"],
        ["--straggler 3=2", "--straggler 9=1.5", GEMM],
        ["--algorithm all-reduce=double-tree"],
    ],
    ids=" ".join,
)
def test_folded_runs_are_edited_as_their_command_lines_do(
    folded: ck.Run, texts: list[str], tmp_path: Path
) -> None:
    edited = EditSession(folded).edited(texts)
    assert edited.makespan_ns == pytest.approx(again(folded, texts, tmp_path), rel=1e-9)
    assert edited.makespan_ns != edited.original_ns == pytest.approx(folded.makespan_ns, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("gpt_pp_2", ["edit{scale=0.2, names=[aten::addmm], on=host}"]),
        ("mlp_ddp_nccl_1", ["unsync", "edit{scale=2, classes=[gemm]}"]),
    ],
)
def test_recordings_are_edited_as_their_command_lines_do(
    name: str, texts: list[str], tmp_path: Path
) -> None:
    run = linked(name)
    edited = EditSession(run).edited(texts)
    assert edited.makespan_ns == pytest.approx(again(run, texts, tmp_path), rel=1e-9)


def test_an_edited_run_has_the_times_of_its_schedule(folded: ck.Run) -> None:
    session = EditSession(folded)
    edited = session.edited([GEMM])
    assert edited.run.makespan_ns == edited.makespan_ns < session.edited([]).makespan_ns
    assert edited.run.ranks == folded.ranks
    assert len(edited.run.times or ()) == 2


def test_waits_of_the_host_are_removed_with_their_edges() -> None:
    run = linked("mlp_ddp_nccl_1")
    body = run.body(0)
    waits = int((body.edges.kind == ck.EdgeKind.SYNC).sum())
    assert waits
    after = run | Unsync()
    assert not (after.body(0).edges.kind == ck.EdgeKind.SYNC).any()
    assert len(after.body(0).edges.src) == len(body.edges.src) - waits


def test_edits_that_mean_nothing_are_refused_by_name(folded: ck.Run) -> None:
    session = EditSession(folded)
    with pytest.raises(ConfigError, match="--stragler is not an edit; did you mean '--straggler'"):
        session.edited(["--stragler 3=2"])
    with pytest.raises(ConfigError, match="RANK=FACTOR"):
        session.edited(["--straggler x"])
    with pytest.raises((ConfigError, TraceError), match="nothing_like_it"):
        session.edited(["edit{scale=2, names=[nothing_like_it]}"])
    with pytest.raises(TraceError, match="no device node is selected"):
        EditSession(linked("gpt_pp_2")).edited(["edit{scale=2, names=[aten::addmm]}"])
    with pytest.raises(TraceError, match="waits for the device"):
        session.edited(["unsync"])
    unnamed = EditSession(linked("gpt_pp_2"))
    with pytest.raises(ConfigError, match="--machine"):
        unnamed.edited(["--algorithm all-reduce=ring"])


def test_other_ranks_are_no_edit(folded: ck.Run) -> None:
    with pytest.raises(ck.ConfigError, match="scale-ranks makes other ranks, which is no edit"):
        EditSession(folded).edited(["scale-ranks{ranks=1000000}"])


def test_times_measured_beside_communication_are_not_slowed_by_it_again(folded: ck.Run) -> None:
    same = ck.transform(folded, "edit{scale=1.0000001, classes=[gemm]}").traces
    again = ck.simulate(same, "dgx-h100:2", compute="measured")
    assert again.makespan_ns == pytest.approx(folded.makespan_ns, rel=1e-3)
