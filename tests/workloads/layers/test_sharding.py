"""Tensors cut over axes, and the collectives between two ways of cutting one."""

from fractions import Fraction

import pytest

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import Dim, Tensor
from chakrakit.workloads.layers.sharding import moves

C = CollectiveType
DEGREES = {"tp": 4, "cp": 2}


def cut(*axes, partial=()):
    """64 × 32 in bf16, each dimension cut by some axes."""
    dims = tuple(Dim(size, a) for size, a in zip((64, 32), axes, strict=True))
    return Tensor(dims, "bf16", frozenset(partial))


SAME, ROWS, COLUMNS = cut((), ()), cut(("tp",), ()), cut((), ("tp",))
WHOLE = 64 * 32 * 2


@pytest.mark.parametrize(
    ("have", "want", "kinds"),
    [
        (SAME, SAME, []),
        (SAME, ROWS, []),  # a local slice
        (ROWS, SAME, [(C.ALL_GATHER, WHOLE // 4, WHOLE)]),
        (ROWS, COLUMNS, [(C.ALL_TO_ALL, WHOLE // 4, WHOLE // 4)]),
        (cut((), (), partial={"tp"}), SAME, [(C.ALL_REDUCE, WHOLE, WHOLE)]),
        (cut((), (), partial={"tp"}), ROWS, [(C.REDUCE_SCATTER, WHOLE, WHOLE // 4)]),
    ],
)
def test_what_turns_one_cutting_into_another(have, want, kinds):
    assert [(m.kind, m.size, m.out_size) for m in moves(have, want, DEGREES)] == kinds


def test_an_axis_of_one_rank_moves_nothing():
    assert list(moves(ROWS, SAME, {"tp": 1})) == []


def test_reductions_come_before_gathers():
    """A partial sum over tp, cut by cp, to be cut by tp and whole over cp."""
    have, want = cut((), ("cp",), partial={"tp"}), cut(("tp",), ())
    found = [(m.kind, m.axis) for m in moves(have, want, DEGREES)]
    assert found == [(C.REDUCE_SCATTER, "tp"), (C.ALL_GATHER, "cp")]


def test_a_rank_holds_its_part_rounded_up():
    assert ROWS.elements(DEGREES) == 16 * 32
    assert Tensor((Dim(10, ("tp",)),), "fp32").elements(DEGREES) == 3
    assert Dim(10).over("tp", "cp").local(DEGREES) == Fraction(5, 4)
