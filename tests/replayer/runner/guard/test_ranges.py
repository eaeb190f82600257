"""What is known of integers that operators make."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Guard, Room
from chakrakit.replayer.runner.guard.ranges import Ranges

torch = pytest.importorskip("torch")

GIB = 1 << 30


pytestmark = pytest.mark.filterwarnings("ignore")


def test_indices_that_are_in_range_by_how_they_were_made_stay_as_computed():
    guard = Guard(torch, Room({"cpu": GIB}))
    scores = torch.rand(6, 8)
    topk = torch.ops.aten.topk.default
    values, chosen = topk(scores, 2)
    guard.done(topk, {"self": scores, "k": 2, "dim": -1}, [values, chosen])
    gather = {"self": scores, "dim": 1, "index": chosen.view(6, 2)}
    assert guard.examine(torch.ops.aten.gather.default, gather, []) == {}
    chosen.add_(1)
    guard.done(torch.ops.aten.add_.Scalar, {"self": chosen, "other": 1}, [])
    assert guard.examine(torch.ops.aten.gather.default, gather, [])


def after(name, given, *results):
    ranges = Ranges(torch)
    ranges.after(name, given, [], list(results))
    return [ranges.of(r) for r in results]


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("arange", {"start": 3, "end": 10, "step": 2}, (3, 9)),
        ("arange", {"start": 5, "end": 0, "step": -1}, (1, 5)),
        ("arange", {"start": 0.5, "end": 3}, None),
        ("randint", {"low": 2, "high": 9}, (2, 8)),
        ("zeros", {}, (0, 0)),
        ("full", {"fill_value": 7}, (7, 7)),
        ("full", {"fill_value": 7.5}, None),
        ("remainder", {"other": 6}, (0, 5)),
        ("clamp", {"min": 0, "max": 4}, (0, 4)),
        ("clamp", {"min": 4, "max": 0}, None),
        ("randperm", {"n": 5}, (0, 4)),
        ("add", {}, None),
    ],
)
def test_integers_that_an_operator_makes(name, given, found):
    assert after(name, given, torch.zeros(4, dtype=torch.long)) == [found]


def test_places_along_a_dimension_are_below_its_size():
    scores = torch.zeros(6, 8)
    values, places = torch.zeros(6, 2), torch.zeros(6, 2, dtype=torch.long)
    assert after("topk", {"self": scores, "dim": 1}, values, places) == [None, (0, 7)]
    assert after("argmax", {"self": scores, "dim": None}, places) == [(0, 47)]


def test_copies_lie_within_what_they_were_copied_from():
    ranges = Ranges(torch)
    low, high, unknown = (torch.zeros(2, dtype=torch.long) for _ in range(3))
    ranges.put(low, (0, 3))
    ranges.put(high, (7, 9))
    made = torch.zeros(4, dtype=torch.long)
    ranges.after("cat", {"tensors": [low, high]}, [], [made])
    assert ranges.of(made) == (0, 9)
    ranges.after("cat", {"tensors": [low, unknown]}, [], [made])
    assert ranges.of(made) is None
    ranges.after("add_", {"self": low}, [low], [])
    assert ranges.of(low) is None
