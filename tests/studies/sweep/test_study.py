"""A study with a mistake is refused before the first point, with the line and the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.studies.sweep.points import grid
from chakrakit.studies.sweep.study import read_study

BASE = """\
name: tiny
workload:
  model: llama3.1-8b
  step: {seq: 512, global_batch: 8}
ranks: 8
axes:
  plan.tp: [1, 2]
machines: [dgx-h100]
"""

MISTAKES = [
    ("name: tiny", "nmae: tiny", r":1: no field 'nmae'; did you mean 'name'\?"),
    (
        "ranks: 8",
        "simulate: {compute: roofline, netwrok: flow}\nranks: 8",
        r":5: no field 'netwrok'; did you mean 'network'\?",
    ),
    ("  plan.tp: [1, 2]", "  plan.tp: []", r":7: plan.tp is empty; give at least one value"),
    ("  plan.tp: [1, 2]", "  plan.tp: [1, 2, 1]", r":7: plan.tp has 1 twice"),
    (
        "  plan.tp: [1, 2]",
        "  plan.tpp: [1, 2]",
        r":7: axis plan.tpp: .*did you mean 'tp' or 'pp'\?",
    ),
    (
        "  plan.tp: [1, 2]",
        "  tp: [1, 2]",
        r":7: axis 'tp' is no field of a workload; write .*plan.X",
    ),
    ("  plan.tp: [1, 2]", "  plan.tp: [one]", r":7: axis plan.tp: Expected `int`, got `str`"),
    (
        "  plan.tp: [1, 2]",
        "  plan.tp: 2",
        r":7: axis plan.tp should be a list of values; write \[2\]",
    ),
    (
        "  plan.tp: [1, 2]",
        "  plan.tp:\n  - 1\n  - 3",
        r":9: plan.tp=3: tp × cp × pp = 3 does not divide 8 ranks; or say `impossible: skip`",
    ),
    (
        "global_batch: 8",
        "global_batch: 7",
        r":7: plan.tp=1: global_batch 7 is not a multiple of dp × micro_batch .*use global_batch 8",
    ),
    (
        "model: llama3.1-8b",
        "model: lama3.1-8b",
        r":3: no model 'lama3.1-8b'; did you mean 'llama3.1-8b'",
    ),
    ("seq: 512", "sqe: 512", r":4: no field 'sqe'; did you mean 'seq'\?"),
    (
        "[dgx-h100]",
        "[dgx-h200:1, dgx-h300]",
        r":8: dgx-h300: neither a file nor a preset; did you mean 'dgx-h200'",
    ),
    ("[dgx-h100]", "[]", r":8: machines is empty"),
    (
        "[dgx-h100]",
        "[ethernet-100g:4]",
        r":8: ethernet-100g has 4 devices and the workload 8 ranks",
    ),
    (
        "[dgx-h100]",
        "\n  - {base: dgx-h100, network.7.bandwidth: 1}",
        r":9: network.7.bandwidth: there is no network.7 to change",
    ),
    ("[dgx-h100]", "[dgx-h100]\npasses: [none, shake]", r":9: .*no pass 'shake'"),
    ("[dgx-h100]", "[dgx-h100]\nsimulate: {compute: none.json}", r":9: .*none.json"),
    ("ranks: 8", "ranks: 0", r":5: ranks is 0; it must be 1 or more"),
    ("ranks: 8", "ranks: eight", r":5: ranks: Expected `int \| null`, got `str`"),
    ("  plan.tp: [1, 2]", "  plan.dp: [1, 2]", r":5: ranks decides dp; leave out either"),
    ("ranks: 8", "ranks: [8", r"not YAML"),
    ("ranks: 8", "ranks: 8\nranks: 4", r":6: 'ranks' is there twice; keep one of them"),
    ("  step: {seq: 512, global_batch: 8}", "  step: 3", r":4: step should be fields, not 3"),
    ("  model: llama3.1-8b", "  model: [a]", r":3: model should be a name or fields, not \['a'\]"),
    ("  plan.tp: [1, 2]", "  step.seq.x: [1]", r":7: axis 'step.seq.x' is no field of a workload"),
    (
        "  plan.tp: [1, 2]",
        f"  step.seed: {list(range(1001))}\n  plan.tp: {list(range(1, 1001))}",
        r":6: 1,001,000 combinations are too many",
    ),
]


@pytest.mark.parametrize(("good", "bad", "message"), MISTAKES, ids=[m[1][:40] for m in MISTAKES])
def test_a_mistake_is_named_with_its_line(
    good: str, bad: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.yaml"
    assert good in BASE
    path.write_text(BASE.replace(good, bad))
    with pytest.raises(ConfigError, match=message):
        grid(read_study(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml: cannot be read"):
        read_study(tmp_path / "none.yaml")


def test_the_grid_is_every_combination(study_file: Path) -> None:
    found = grid(read_study(study_file))
    assert len(found.points) == 3 * 2 * 2
    assert found.points[1].parameters == {
        "plan.tp": 1,
        "plan.data": "zero1",
        "machine": "slow",
        "passes": "none",
    }
    assert [p.workload.plan.dp for p in found.points[::4]] == [8, 4, 2]
    assert len({p.key for p in found.points}) == len(found.points)


def test_what_cannot_be_is_left_out_where_that_is_asked_for(study_file: Path) -> None:
    text = study_file.read_text().replace("[1, 2, 4]", "[1, 2, 3, 4]")
    study_file.write_text(text + "impossible: skip\n")
    found = grid(read_study(study_file))
    assert (len(found.points), found.skipped) == (12, 4)


def test_a_study_of_nothing_but_impossible_points(study_file: Path) -> None:
    study_file.write_text(study_file.read_text().replace("[1, 2, 4]", "[3]") + "impossible: skip\n")
    with pytest.raises(ConfigError, match="no combination can be"):
        grid(read_study(study_file))


def test_a_value_may_set_several_fields(study_file: Path) -> None:
    axis = "shape: [{plan.tp: 2, plan.pp: 2}, {plan.tp: 4, model.layers: 4}]"
    study_file.write_text(study_file.read_text().replace("plan.tp: [1, 2, 4]", axis))
    workloads = [p.workload for p in grid(read_study(study_file)).points]
    assert {(w.plan.tp, w.plan.pp, w.model.layers) for w in workloads} == {(2, 2, 2), (4, 1, 4)}  # type: ignore[union-attr]


def test_a_key_changes_with_everything_that_decides_the_result(
    study_file: Path, tmp_path: Path
) -> None:
    text = study_file.read_text()
    first = {p.key for p in grid(read_study(study_file)).points}
    assert {p.key for p in grid(read_study(study_file)).points} == first
    study_file.write_text(text.replace("name: tiny", "name: other"))
    assert {p.key for p in grid(read_study(study_file)).points} == first
    for old, new in (("seq: 512", "seq: 1024"), ("45 GB/s", "40 GB/s"), ("layers: 2", "layers: 4")):
        study_file.write_text(text.replace(old, new))
        assert {p.key for p in grid(read_study(study_file)).points} != first
    study_file.write_text(text + "simulate: {network: analytical}\n")
    assert {p.key for p in grid(read_study(study_file)).points}.isdisjoint(first)


def test_a_machine_file_beside_the_study_is_found_and_its_content_counts(study_file: Path) -> None:
    machine = study_file.parent / "mine.yaml"
    text = "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}\n" + (
        "network: [{topology: switch, size: 8, bandwidth: 1 GB/s}]\n"
    )
    machine.write_text(text)
    study_file.write_text(study_file.read_text().replace("- dgx-h100\n", "- mine.yaml\n"))
    before = [p.key for p in grid(read_study(study_file)).points]
    machine.write_text(text.replace("1 GB/s", "2 GB/s"))
    after = [p.key for p in grid(read_study(study_file)).points]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True] * 6
