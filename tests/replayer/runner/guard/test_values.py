"""Values that a call needs: indices in range, counts as recorded, shares that are such."""

from __future__ import annotations

import pytest

from support.replayed import examined

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.filterwarnings("ignore")


def f(*shape):
    return torch.zeros(shape)


def i(*values):
    return torch.tensor(values)


@pytest.mark.parametrize(
    ("operator", "arguments", "name", "bound"),
    [
        (torch.ops.aten.embedding.default, (f(9, 2), i(100, -5, 3)), "indices", 9),
        (torch.ops.aten.index_select.default, (f(9, 2), 0, i(9, 1)), "index", 9),
        (torch.ops.aten.gather.default, (f(3, 7), 1, i([7, 0])), "index", 7),
        (torch.ops.aten.scatter_add.default, (f(5), 0, i(5, 1), f(2)), "index", 5),
        (torch.ops.aten.nll_loss_forward.default, (f(2, 6), i(6, -3), None, 1, -100), "target", 6),
    ],
)
def test_an_index_out_of_range_is_replaced_by_one_in_range(operator, arguments, name, bound):
    given, replaced = examined(operator, arguments)
    assert (name, -1) in replaced
    assert 0 <= int(given[name].min()) <= int(given[name].max()) < bound


def test_an_index_for_each_dimension_and_masks_among_them():
    index = torch.ops.aten.index.Tensor
    given, _ = examined(index, (f(4, 50), [None, i(50, 7)]), [[4, 2]])
    assert int(given["indices"][1].max()) < 50
    given, _ = examined(index, (f(8, 3), [torch.zeros(8, dtype=torch.bool)]), [[5, 3]])
    assert int(given["indices"][0].sum()) == 5


@pytest.mark.parametrize(
    ("operator", "arguments", "shape", "name", "holds"),
    [
        (torch.ops.aten.nonzero.default, (f(6, 2),), [7, 2], "self", lambda t: t.sum() == 7),
        (
            torch.ops.aten.masked_select.default,
            (f(9), torch.ones(9, dtype=torch.bool)),
            [4],
            "mask",
            lambda t: t.sum() == 4,
        ),
        (
            torch.ops.aten.repeat_interleave.Tensor,
            (i(9, 9, 9),),
            [10],
            "repeats",
            lambda t: t.sum() == 10,
        ),
        (
            torch.ops.aten.bincount.default,
            (i(0, 0, 90), None, 4),
            [6],
            "self",
            lambda t: t.max() == 5,
        ),
        (
            torch.ops.aten._unique2.default,
            (i(1, 1, 1, 1, 1),),
            [3],
            "self",
            lambda t: len(t.unique()) == 3,
        ),
    ],
)
def test_results_as_long_as_recorded(operator, arguments, shape, name, holds):
    """Counts per expert are in the shapes: what is looked through is made to give as many."""
    given, _ = examined(operator, arguments, [shape])
    assert bool(holds(given[name]))
    found = operator(*given.values())
    assert list((found[0] if isinstance(found, tuple) else found).shape) == shape


def test_segments_are_in_order_and_fill_the_rows():
    grouped = torch.ops.aten._grouped_mm.default
    ends = torch.tensor([900, 3, 0, 8], dtype=torch.int32)
    half = torch.bfloat16
    given, _ = examined(grouped, (f(64, 16).to(half), f(4, 16, 8).to(half), ends))
    assert given["offs"].tolist() == [16, 32, 48, 64]


def test_bags_share_the_rows_evenly_where_nobody_says_how():
    bag = torch.ops.aten._embedding_bag.default
    zeros = torch.zeros(4, dtype=torch.long)
    given, _ = examined(bag, (f(50, 2), torch.full((12,), 99), zeros))
    assert given["offsets"].tolist() == [0, 3, 6, 9]
    assert int(given["indices"].max()) < 50


def test_shares_and_probabilities_are_such():
    given, _ = examined(torch.ops.aten.multinomial.default, (torch.full((3,), torch.nan), 2))
    assert given["self"].tolist() == [1, 1, 1]
    loss = torch.ops.aten.binary_cross_entropy.default
    given, _ = examined(loss, (f(3) + 2, f(3) - 1))
    assert [given["self"].max(), given["target"].min()] == [0.5, 0.5]
