"""The sandbox: what a plan asks of PyTorch is held against the tensors that are really there."""

from __future__ import annotations

from .guard import Guard
from .refusal import Refused, written_by
from .room import Room, limit_process, room_for

__all__ = ["Guard", "Refused", "Room", "limit_process", "room_for", "written_by"]
