"""What is known of integers that operators make."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Guard, MemoryBudget
from chakrakit.replayer.runner.guard.ranges import Ranges
from support.replayed import GIB

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
