"""What a call would give, found out on tensors without memory."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.dry_run import DryRun
from chakrakit.replayer.runner.measure import run_plan

torch = pytest.importorskip("torch")

SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": 60.0}


pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_operator_that_would_resize_what_it_is_given_is_not_called(plan):
    step = plan["steps"][0]
    step.update(overload="out", made=[], outs=[None])
    step["kwargs"] = {"out": {"slot": 3}}
    plan["slots"] = 4
    views = [[3, "float32", [1], [1], 0]]
    plan["externals"].append(
        {
            "bytes": 4,
            "device": "cpu",
            "dtype": "float32",
            "fill": {"kind": "normal"},
            "views": views,
        }
    )
    found = run_plan(plan, SETTINGS, None)
    assert "resizes" in found["not_covered"][0]["why"]


def results(operator, **given):
    return DryRun(torch).results(operator, given)


def test_a_result_of_its_own_takes_memory_and_a_view_none():
    a = torch.zeros(4, 6)
    assert results(torch.ops.aten.mm.default, self=a, mat2=torch.zeros(6, 5)) == [([4, 5], 80)]
    assert results(torch.ops.aten.view.default, self=a, size=[24]) == [([24], 0)]
    assert results(torch.ops.aten.topk.default, self=a, k=2) == [([4, 2], 32), ([4, 2], 64)]


def test_what_pytorch_refuses_is_not_known():
    a = torch.zeros(4, 6)
    assert results(torch.ops.aten.mm.default, self=a, mat2=a) is None


def test_a_call_that_resizes_what_it_was_given_is_refused_again_and_again():
    dry, out = DryRun(torch), torch.zeros(1)
    given = {"self": torch.zeros(4), "other": torch.zeros(4), "out": out}
    for _ in range(2):
        with pytest.raises(Refused, match="resizes what it was given"):
            dry.results(torch.ops.aten.add.out, given)
    assert out.shape == (1,)
