"""The short way to an operator is taken only to the same operator."""

from __future__ import annotations

import pytest

from support.recorded import ADD, Sheet, plain, tensor
from support.replayed import ONE, checked, plan_text

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_short_way_is_taken_only_to_the_same_operator(tmp_path):
    """`Tensor.div` with a number is `div.Tensor` to the dispatcher, and here `div.Scalar` was recorded."""
    sheet = Sheet()
    schema = "aten::div.Scalar(Tensor self, Scalar other) -> Tensor"
    sheet.op("aten::div", schema, [tensor(1, 4), plain(2, "Int")], [tensor(2, 4)])
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(1, 4), ONE], [tensor(3, 4)])
    program = checked(plan_text(sheet, tmp_path))
    with torch.inference_mode():
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Watch():
            program.run()
    assert seen == ["aten.div.Scalar", "aten.add.Tensor"]
