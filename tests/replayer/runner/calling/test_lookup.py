"""Which overload takes arguments of which only the places are known."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.replayer.runner.calling import find_operator
from chakrakit.replayer.runner.calling.lookup import ANY_OVERLOAD

torch = pytest.importorskip("torch")
X, Y = {"slot": 0}, {"slot": 1}


@pytest.mark.parametrize(
    ("op", "args", "overload", "kwargs"),
    [
        ("aten::addmm", [X, X, Y, 1, 1], "default", {"beta": 1, "alpha": 1}),
        ("aten::sum", [X, [0], True, None], "dim_IntList", {}),
        # Recordings leave texts out: the default stands for them.
        ("aten::gelu", [X, None], "default", {"approximate": "none"}),
        ("aten::gelu_backward", [X, Y, None], "default", {"approximate": "none"}),
    ],
)
def test_the_overload_that_takes_the_arguments(
    op: str, args: list[Any], overload: str, kwargs: dict[str, Any]
) -> None:
    step = {"op": op, "overload": ANY_OVERLOAD, "args": args}

    assert find_operator(torch, step)._overloadname == overload
    assert step["kwargs"] == kwargs


def test_arguments_that_no_overload_takes() -> None:
    step = {"op": "aten::gelu", "overload": ANY_OVERLOAD, "args": [X, Y, [1]]}

    assert find_operator(torch, step) is None
