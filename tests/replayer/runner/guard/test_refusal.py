"""What the guard says when an operator must not be called."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.refusal import need, written_by
from support.replayed import examined

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", ["dtype", "layout", "memory_format"])
@pytest.mark.parametrize("number", [2**31 - 1, -1, 99, 1.5, True])
def test_a_kind_that_pytorch_has_not_numbered(kind, number):
    """It is taken on trust: `randperm` with element type 2147483647 ends the process."""
    with pytest.raises(Refused, match=kind):
        examined(torch.ops.aten.randperm.default, [4], **{kind: number})


def test_what_a_call_writes_to_is_in_its_schema():
    a, b, out = (torch.zeros(2) for _ in range(3))
    assert written_by(torch.ops.aten.add_.Tensor, {"self": a, "other": b})[0] is a
    assert written_by(torch.ops.aten.add.out, {"self": a, "other": b, "out": out})[0] is out
    assert written_by(torch.ops.aten.add.Tensor, {"self": a, "other": b}) == []
    many = written_by(torch.ops.aten._foreach_add_.Scalar, {"self": [a, b], "scalar": 1})
    assert [t is w for t, w in zip(many, (a, b), strict=True)] == [True, True]


def test_what_does_not_hold_is_refused_with_its_words():
    need(True, "never said")
    with pytest.raises(Refused, match="two legs"):
        need(False, "two legs")
