"""Models of several sections: who hands what to whom, in which order, and that it always ends."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.trace.sets import TraceSet

DECODER = {"family": "decoder", "layers": 2, "hidden": 64, "heads": 4, "vocab": 128}
VISION = {
    "family": "vision", "layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "image": 32, "patch": 8,
    "class_token": False,
}  # fmt: skip
STEP = {"seq": 32, "global_batch": 8}


def encoder_and_language(**changes: Any) -> dict[str, Any]:
    vision = {"model": VISION, "plan": {"dp": 4}, "share": 0.5, **changes.pop("vision", {})}
    language = {"model": DECODER, "plan": {"tp": 2, "dp": 2}, "after": ["vision"]}
    sections = {"vision": vision, "language": {**language, **changes.pop("language", {})}}
    return {"sections": sections, "step": STEP, **changes}


def message_bytes(traces: TraceSet, name: str) -> int:
    return sum(
        int(node["comm_size"])
        for rank in traces.ranks
        for node in traces.trace(rank).nodes.select(["name", "comm_size"]).to_pylist()
        if node["name"] == name
    )


def test_every_encoded_token_crosses_once_and_its_gradient_once_back() -> None:
    traces = ck.generate(encoder_and_language()).traces
    encoded = 4 * 16 * 32 * 2  # half of 8 images, 16 patches of width 32 in bf16
    assert message_bytes(traces, "vision.result.send") == encoded
    assert message_bytes(traces, "vision.gradient.send") == encoded


def test_what_is_wanted_whole_arrives_in_parts_and_is_gathered() -> None:
    whole = {"plan": {"tp": 2, "dp": 2, "sequence_parallel": False}}
    made = ck.generate(encoder_and_language(language=whole))
    assert message_bytes(made.traces, "vision.result.send") == 4 * 16 * 32 * 2
    gathers = [
        n
        for rank in made.traces.ranks
        for n in made.traces.trace(rank).nodes.to_pylist()
        if n["name"] == "vision.result.gather"
    ]
    assert {n["pg_name"] for n in gathers}
    assert all(n["out_size"] == 2 * n["comm_size"] for n in gathers)
    assert (
        sum(n["out_size"] for n in gathers) == 2 * 4 * 16 * 32 * 2
    )  # both tp ranks have all of it


def test_on_shared_ranks_what_a_rank_has_itself_is_not_sent() -> None:
    """One image per replica, and the language model has the same replicas: nothing moves."""
    language = {"plan": {"dp": 4}, "ranks_of": "vision"}
    made = ck.generate(encoder_and_language(vision={"share": 1.0}, language=language))
    assert made.figures.ranks == 4
    assert made.figures.sections is not None
    assert made.figures.sections[0].handed_bytes == 0
    order = made.traces.trace(0).nodes.select(["section", "phase"]).to_pylist()
    parts = [(r["section"], r["phase"]) for r in order]
    assert parts.index(("vision", "backward")) > parts.index(("language", "backward"))
    assert parts.index(("vision", "forward")) < parts.index(("language", "forward"))


def test_one_section_is_the_plain_workload() -> None:
    plan = {"tp": 2, "dp": 2, "pp": 2}
    sections = ck.generate({"sections": {"all": {"model": DECODER, "plan": plan}}, "step": STEP})
    plain = ck.generate({"model": DECODER, "plan": plan, "step": STEP})
    assert sections.figures.flops_total == plain.figures.flops_total
    for rank in plain.traces.ranks:
        mine, theirs = sections.traces.trace(rank), plain.traces.trace(rank)
        for column in ("name", "num_ops", "comm_size", "mem_alloc", "stream"):
            assert mine.nodes.column(column).to_pylist() == theirs.nodes.column(column).to_pylist()
        assert mine.edges.src.tolist() == theirs.edges.src.tolist()
    machine = "dgx-h100"
    took = [ck.simulate(made.traces, machine=machine).makespan_ns for made in (sections, plain)]
    assert took[0] == took[1]


def test_a_wavefront_lets_samples_pass_that_skip_the_encoder() -> None:
    frozen = {"model": {**VISION, "layers": 8}, "plan": {"dp": 1}, "trains": False}
    made = [
        ck.generate(encoder_and_language(vision=frozen, order=order)).traces
        for order in ("fifo", "wavefront")
    ]
    fifo, wavefront = (ck.simulate(t, machine="dgx-h100").makespan_ns for t in made)
    assert wavefront < fifo


def test_a_teacher_only_goes_forward_and_its_logits_reach_the_loss() -> None:
    teacher = {"model": DECODER, "plan": {"tp": 2}, "trains": False, "output": "logits"}
    student = {"model": {**DECODER, "layers": 1}, "plan": {"dp": 2}, "after": ["teacher"]}
    graph = {"sections": {"teacher": teacher, "student": student}, "step": STEP}
    traces = ck.generate(graph).traces
    nodes = traces.trace(0).nodes
    assert set(nodes.column("phase").to_pylist()) == {"forward"}
    assert message_bytes(traces, "teacher.result.send") == 8 * 32 * 128 * 2
    student_trace = traces.trace(2)
    names = student_trace.nodes.column("name").to_pylist()
    pairs = {
        (names[s], names[d])
        for s, d in zip(
            *(a.tolist() for a in (student_trace.edges.src, student_trace.edges.dst)), strict=True
        )
    }
    assert ("teacher.result.recv", "loss") in pairs
    assert ("teacher.result.recv", "embedding") not in pairs


def test_dealing_by_size_evens_out_images() -> None:
    work = []
    for deal in ("turn", "size"):
        vision = {"deal": deal, "share": 1.0, "lengths": {"distribution": "lognormal", "mean": 8}}
        step = {**STEP, "global_batch": 32}
        made = ck.generate(encoder_and_language(vision=vision, step=step))
        of_vision = [
            c.flops
            for c in made.figures.per_rank
            if c.rank_class.startswith("vision")
            for _ in range(c.ranks)
        ]
        work.append(max(of_vision) / np.mean(of_vision))
    assert work[1] < min(1.1, work[0])


def test_a_replica_may_have_nothing_to_encode() -> None:
    """Two of eight samples have images; each replica takes its own, and two have none."""
    vision = {"share": 0.25, "deal": "own"}
    made = ck.generate(encoder_and_language(vision=vision))
    rows = [c for c in made.figures.per_rank if c.rank_class.startswith("vision")]
    assert sum(c.ranks for c in rows if c.flops == 0) >= 2
    assert ck.validate(made.traces).ok
    assert ck.simulate(made.traces, machine="dgx-h100").makespan_ns > 0


def test_samples_of_a_file_go_where_their_modality_says(tmp_path: Any) -> None:
    rows = [f"32,{'image' if i % 4 else 'text'}" for i in range(16)]
    (tmp_path / "samples.csv").write_text("length,modality\n" + "\n".join(rows))
    step = {**STEP, "steps": 2, "samples": {"sample_file": str(tmp_path / "samples.csv")}}
    made = ck.generate(
        encoder_and_language(vision={"share": 1.0, "modalities": ["image"]}, step=step)
    )
    assert made.figures.sections is not None
    assert [s.samples for s in made.figures.sections] == [6, 8]
    assert [len(t) for t in made.series] == [8, 8]
    with pytest.raises(ConfigError, match="one step"):
        _ = made.traces


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"language": {"after": ["visoin"]}}, "visoin"),
        ({"vision": {"after": ["language"]}}, "circle"),
        ({"language": {"ranks_of": "vision", "plan": {"dp": 8}}}, "8 ranks"),
        ({"vision": {"share": 0.0}}, "share is 0"),
        ({"language": {"trains": False}}, "does not go back"),
        ({"vision": {"plan": {"dp": 4, "tp": 3}}}, "section vision: tp 3"),
        ({"vision": {"plan": {"dpp": 4}}}, "dpp"),
        ({"step": {"kind": "decode"}}, "training steps"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ck.generate(encoder_and_language(**changes))


def random_graph(seed: int) -> dict[str, Any]:
    """Up to three sections of any plan, on ranks of their own or shared, with any shares and orders."""
    r = random.Random(seed)
    sections: dict[str, Any] = {}
    count = r.randint(2, 3)
    for i in range(count):
        last = i == count - 1
        plan = {
            "dp": r.choice([1, 2]),
            "tp": r.choice([1, 2]),
            "pp": r.choice([1, 2]),
            "cp": r.choice([1, 2]),
        }
        plan |= {"data": r.choice(["ddp", "zero1"]), "sequence_parallel": r.random() < 0.5}
        s: dict[str, Any] = {"model": DECODER if last or r.random() < 0.5 else VISION, "plan": plan}
        s |= {"micro_batch": r.choice([1, 2]), "share": 1 if last else r.choice([1, 0.5])}
        s["deal"] = r.choice(["turn", "size"])
        if i:
            s["after"] = r.sample([f"s{k}" for k in range(i)], r.randint(1, i))
        home = sections.get(f"s{i - 1}")
        if home and not home.get("ranks_of") and r.random() < 0.5:
            s |= {"ranks_of": f"s{i - 1}", "plan": home["plan"]}
        sections[f"s{i}"] = s
    step = {**STEP, "seed": seed}
    return {"sections": sections, "order": r.choice(["fifo", "wavefront"]), "step": step}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_agree_across_ranks_and_run_to_the_end(seed: int) -> None:
    made = ck.generate(random_graph(seed))
    report = ck.validate(made.traces)
    assert report.ok
    assert not report.warnings
    folded = ck.simulate(made.traces, machine="dgx-h100:4")
    apart = ck.simulate(made.traces, machine="dgx-h100:4", fold=False)
    assert folded.makespan_ns == pytest.approx(apart.makespan_ns, rel=1e-6)
