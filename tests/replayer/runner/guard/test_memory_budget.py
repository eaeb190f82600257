"""How much memory a replay may take."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import MemoryBudget, memory_budget
from chakrakit.replayer.runner.limits import ReplayError
from support.replayed import examined

torch = pytest.importorskip("torch")


def f(*shape):
    return torch.zeros(shape)


def test_more_than_the_room_is_refused_before_it_is_taken():
    with pytest.raises(ReplayError, match="GiB on this machine"):
        examined(torch.ops.aten.repeat.default, (f(1024), [1 << 20]))


def test_storages_count_once_and_give_their_bytes_back_with_their_last_slot():
    budget, tensor = MemoryBudget({"cpu": 200}), torch.zeros(25)
    budget.put(0, tensor)
    budget.put(1, tensor[5:])
    budget.ask("cpu", 100)
    with pytest.raises(ReplayError, match="on this machine"):
        budget.ask("cpu", 101)
    budget.drop(0)
    with pytest.raises(ReplayError):
        budget.ask("cpu", 101)
    budget.drop(1)
    budget.drop(1)
    budget.ask("cpu", 200)


def test_a_slot_that_is_filled_again_holds_what_is_there_now():
    budget = MemoryBudget({"cpu": 200})
    budget.put(0, torch.zeros(25))
    budget.put(0, torch.zeros(1))
    budget.ask("cpu", 196)
    with pytest.raises(ReplayError):
        budget.ask("cpu:0", 197)


def test_a_device_that_is_not_there_has_no_room():
    with pytest.raises(ReplayError, match="the GPU"):
        MemoryBudget({"cpu": 200}).ask("cuda:1", 1)


def test_ranks_on_one_machine_share_its_memory():
    one, four = (memory_budget(torch, "cpu", n).limits["cpu"] for n in (1, 4))
    assert four == pytest.approx(one / 4, rel=0.2)
