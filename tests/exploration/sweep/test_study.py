"""A study with a mistake is refused before the first point, with the line and the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep import grid, read_study

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
        r":7: axis 'tp' is not a field of a workload; write .*plan.X",
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
    ("seq: 512", "sqe: 512", r":4: .*unknown field `sqe`; did you mean 'seq'\?"),
    (
        "[dgx-h100]",
        "[dgx-h200:1, dgx-h300]",
        r":8: dgx-h300: neither a file nor a preset; did you mean 'dgx-h800' or 'dgx-h200'",
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
    (
        "  plan.tp: [1, 2]",
        "  step.seq.x: [1]",
        r":7: axis 'step.seq.x' is not a field of a workload",
    ),
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
