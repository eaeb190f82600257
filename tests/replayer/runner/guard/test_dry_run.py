"""What a call would give, found out on tensors without memory."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.dry_run import DryRun, Result
from chakrakit.replayer.runner.measure import run_plan
from support.replayed import SETTINGS

torch = pytest.importorskip("torch")
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


aten = torch.ops.aten


def asked(operator, **given):
    return DryRun(torch).results(operator, given)


def test_results_have_a_shape_and_bytes_and_views_have_none():
    x = torch.zeros(4, 6)
    assert asked(aten.mm.default, self=x, mat2=torch.zeros(6, 2)) == [Result([4, 2], 32)]
    assert asked(aten.t.default, self=x) == [Result([6, 4], 0)]
    assert asked(aten.topk.default, self=x, k=2) == [Result([4, 2], 32), Result([4, 2], 64)]


def test_sizes_that_no_machine_has_are_known_without_taking_them():
    (found,) = asked(aten.zeros.default, size=[1 << 40], device="cpu")
    assert found == Result([1 << 40], 4 << 40)


def test_what_pytorch_refuses_or_cannot_say_is_left_to_it():
    assert asked(aten.mm.default, self=torch.zeros(2, 3), mat2=torch.zeros(2, 3)) is None
    assert asked(aten.nonzero.default, self=torch.zeros(3)) is None


def test_an_operator_that_resizes_what_it_is_given_is_refused_each_time():
    dry, out = DryRun(torch), torch.zeros(1)
    given = {"self": torch.zeros(4), "other": torch.zeros(4), "out": out}
    for _ in range(2):
        with pytest.raises(Refused, match="resizes what it was given"):
            dry.results(aten.add.out, given)
    assert out.shape == (1,)
