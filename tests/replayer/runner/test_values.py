"""Arguments whose values decide whether a call may be made, and what is known of integers."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner import values
from chakrakit.replayer.runner.guard import Guard, MemoryBudget
from chakrakit.replayer.runner.limits import ALLOWED
from chakrakit.replayer.runner.values import Ranges, ValueRules, index_below, offsets_into, true_in
from support.replayed import GIB, examined

torch = pytest.importorskip("torch")


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


def test_shares_are_such():
    given, _ = examined(torch.ops.aten.multinomial.default, (torch.full((3,), torch.nan), 2))
    assert given["self"].tolist() == [1, 1, 1]


def test_indices_that_crowd_on_one_row_are_spread():
    """A thousand times the same row of fifty would let a kernel stand in a queue."""
    want = index_below(torch, 50)
    assert not want.holds(torch.zeros(1000, dtype=torch.long))
    assert want.holds(want.make(torch.zeros(1000, dtype=torch.long)))
    assert want.holds(torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize(
    ("value", "how", "fits"),
    [
        (-1, {}, False),
        (-1, {"wraps": True}, True),
        (-100, {"besides": -100}, True),
        (5, {}, False),
        (4, {}, True),
    ],
)
def test_indices_from_the_end_and_those_that_mean_none(value, how, fits):
    assert index_below(torch, 5, **how).holds(torch.tensor([value])) is fits


def test_rows_that_are_chosen_are_each_chosen_once():
    chosen = index_below(torch, 8).make(torch.zeros(8, dtype=torch.long))
    assert chosen.tolist() == list(range(8))


@pytest.mark.parametrize(
    ("ends", "fits"),
    [([0, 4, 10], True), ([0, 10, 4], False), ([1, 4, 10], False), ([0, 4, 9], False), ([0, 0, 0], False)],
)  # fmt: skip
def test_ends_of_segments_are_in_order_from_nothing_to_all(ends, fits):
    want = offsets_into(torch, 10, from_zero=True, to_end=True)
    assert want.holds(torch.tensor(ends)) is fits
    assert want.make(torch.zeros(3, dtype=torch.int32)).tolist() == [0, 5, 10]


def test_a_mask_chooses_as_many_as_are_wanted():
    want = true_in(torch, 3)
    assert int(want.make(torch.zeros(2, 4, dtype=torch.bool)).sum()) == 3
    assert want.holds(torch.tensor([1.0, 0.0, 2.0, 3.0]))


def test_operators_whose_values_do_not_matter_want_nothing():
    assert ValueRules(torch).wanted("add", {"self": f(2)}, []) == {}
    assert ValueRules(torch).wanted("nonzero", {"self": f(2)}, []) == {}  # nobody says how many


torch = pytest.importorskip("torch")


def test_indices_that_are_in_range_by_how_they_were_made_stay_as_computed():
    guard = Guard(torch, MemoryBudget({"cpu": GIB}))
    scores = torch.rand(6, 8)
    topk = torch.ops.aten.topk.default
    values, chosen = topk(scores, 2)
    guard.done(topk, {"self": scores, "k": 2, "dim": -1}, [values, chosen])
    gather = {"self": scores, "dim": 1, "index": chosen.view(6, 2)}
    assert guard.examine(torch.ops.aten.gather.default, gather, []) == {}
    chosen.add_(1)
    guard.done(torch.ops.aten.add_.Scalar, {"self": chosen, "other": 1}, [])
    assert guard.examine(torch.ops.aten.gather.default, gather, [])


@pytest.mark.parametrize(
    ("name", "given", "known"),
    [
        ("arange", {"start": 3, "end": 10, "step": 2}, (3, 9)),
        ("arange", {"end": 4}, (0, 3)),
        ("randint", {"low": 2, "high": 7}, (2, 6)),
        ("argmax", {"self": torch.zeros(3, 5), "dim": 1}, (0, 4)),
        ("argmax", {"self": torch.zeros(3, 5), "dim": None}, (0, 14)),
        ("clamp", {"min": 1, "max": 6}, (1, 6)),
        ("remainder", {"self": torch.zeros(2), "other": 8}, (0, 7)),
        ("full", {"fill_value": 5}, (5, 5)),
        ("full", {"fill_value": 0.5}, None),
        ("add", {}, None),
    ],
)
def test_what_an_operator_makes_lies_between_numbers(name, given, known):
    ranges, made = Ranges(torch), torch.zeros(4, dtype=torch.long)
    ranges.after(name, given, [], [made])
    assert ranges.of(made) == known


def test_copies_lie_where_all_of_their_sources_do():
    ranges = Ranges(torch)
    a, b, made = (torch.zeros(2, dtype=torch.long) for _ in range(3))
    ranges.put(a, (0, 3))
    ranges.after("cat", {"tensors": [a, b]}, [], [made])
    assert ranges.of(made) is None
    ranges.put(b, (5, 9))
    ranges.after("cat", {"tensors": [a, b]}, [], [made])
    assert ranges.of(made) == (0, 9)


def test_what_is_written_to_is_no_longer_known():
    ranges, tensor = Ranges(torch), torch.zeros(4, dtype=torch.long)
    ranges.put(tensor, (0, 3))
    assert ranges.of(tensor[1:]) == (0, 3)  # a view lies in the same storage
    ranges.after("add_", {"self": tensor}, [tensor], [tensor])
    assert ranges.of(tensor) is None


def test_every_rule_is_for_an_operator_that_is_called():
    names = {name.partition("::")[2].partition(".")[0] for name in ALLOWED}
    assert {*values._RULES, *values._MAKERS, *values._COPIES} <= names
