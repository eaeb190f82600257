"""How much memory a replay may take, and what tensors really hold."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Room, room_for
from chakrakit.replayer.runner.guard import room as module
from chakrakit.replayer.runner.limits import ReplayError

torch = pytest.importorskip("torch")


def test_more_than_the_room_is_refused_before_it_is_taken():
    room = Room({"cpu": 100})
    room.ask("cpu", 100)
    with pytest.raises(ReplayError, match="GiB on this machine"):
        room.ask("cpu", 101)
    with pytest.raises(ReplayError, match="GiB on the GPU"):
        room.ask("cuda:3", 1)


def test_views_of_a_storage_hold_it_once_until_the_last_is_gone():
    room, base = Room({"cpu": 100}), torch.zeros(20)  # 80 bytes
    room.put(0, base)
    room.put(1, base[:4])
    room.ask("cpu", 20)
    room.drop(0)
    with pytest.raises(ReplayError):
        room.ask("cpu", 21)
    room.drop(1)
    room.drop(1)
    room.ask("cpu", 100)


def test_a_slot_that_is_filled_again_gives_the_old_back():
    room = Room({"cpu": 100})
    room.put(0, torch.zeros(20))
    room.put(0, torch.zeros(5))
    room.ask("cpu", 80)


def test_ranks_of_one_machine_share_it(monkeypatch):
    monkeypatch.setattr(module, "host_memory", lambda: 1000)
    assert room_for(torch, "cpu", 4).limits == {"cpu": 237}
