"""Recordings and plans that ask PyTorch for what would crash it; they run behind the walls of a replay."""

# ruff: noqa: E501 - a table, one case a line

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzz.attacks.attack import Attack
from support.recorded import Sheet, plain, several, tensor

ALIAS = "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"
FILL = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
ZEROS = "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
STACK = "aten::_stack(Tensor[] tensors, int dim=0) -> Tensor"
POLYGAMMA = "aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)"


def _ints(*values: int) -> dict[str, Any]:
    return plain(list(values), f"GenericList[{','.join(['Int'] * len(values))}]")


def calls(
    *rows: tuple[str, str, list[dict[str, Any]], list[dict[str, Any]]],
) -> Callable[[Path], object]:
    """An observer's file of these operators."""

    def make(folder: Path) -> None:
        sheet = Sheet()
        for name, schema, given, back in rows:
            sheet.op(name, schema, given, back)
        sheet.write(folder / "et_0.json")

    return make


_BEYOND = tensor(1, 4)
_FAR = {**tensor(1, 1 << 20), "value": [1001, 1, 0, 1 << 20, 4, "cpu"]}
REPLAY = "replay {in}/et_0.json --iterations 1 --warmup 0"
REPLAYS = [
    Attack("a view beyond its storage, filled", calls(("aten::_reshape_alias", ALIAS, [_BEYOND, _ints(1 << 20), _ints(1)], [_FAR]), ("aten::fill_", FILL, [_FAR, plain(1, "Int")], [_FAR])), REPLAY, "", 0, pytorch=True),
    Attack("zeros of 4.8 GB recorded as 16 bytes", calls(("aten::zeros", ZEROS, [_ints(1_200_000_000), plain(6, "Int")], [tensor(2, 4)])), REPLAY, "", 0, pytorch=True),
    Attack("a stack of nothing", calls(("aten::_stack", STACK, [several(), plain(5, "Int")], [tensor(3, 4)])), REPLAY, "nothing here is an operator that replay knows"),
    Attack("polygamma of doubles, which never ends", calls(("aten::polygamma_", POLYGAMMA, [tensor(4, 64, dtype="double"), plain(4, "Int")], [tensor(4, 64, dtype="double")])), REPLAY, "nothing here is an operator that replay knows"),
] if find_spec("torch") else []  # fmt: skip
