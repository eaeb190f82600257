"""The sandbox: what a plan asks of PyTorch is held against the tensors that are really there."""

from __future__ import annotations

from .guard import Guard, written_by
from .refusal import Refused
from .room import Room, limit_process, room_for

__all__ = ["Guard", "Refused", "Room", "limit_process", "room_for", "written_by"]
