"""What must not be called is refused."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused, written_by
from chakrakit.replayer.runner.guard.refusal import check_kinds
from support.replayed import examined

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", ["dtype", "layout", "memory_format", "reduction"])
@pytest.mark.parametrize("number", [2**31 - 1, -1, 99, 1.5, True])
def test_a_kind_that_pytorch_has_not_numbered(kind, number):
    """It is taken on trust: `randperm` with element type 2147483647 ends the process."""
    with pytest.raises(Refused, match=kind):
        examined(torch.ops.aten.randperm.default, [4], **{kind: number})


def test_kinds_that_there_are_are_taken():
    check_kinds({"dtype": 15, "layout": 0, "memory_format": 3, "size": 99, "other_dtype": None})


def test_tensors_that_a_call_writes_to_are_those_its_schema_marks():
    own, other = torch.zeros(2), torch.ones(2)
    add = torch.ops.aten.add_.Tensor
    assert written_by(add, {"self": own, "other": other}) == [own]
    lists = torch.ops.aten._foreach_add_.List
    assert len(written_by(lists, {"self": [own, own], "other": [other, other]})) == 2
    assert written_by(torch.ops.aten.add.Tensor, {"self": own, "other": other}) == []
