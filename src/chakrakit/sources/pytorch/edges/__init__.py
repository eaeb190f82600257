"""What each row of a recording had to wait for: threads, launches, streams, events, tensors."""

from __future__ import annotations

from chakrakit.sources.pytorch.edges.candidates import TOLERANCE_NS, Candidates
from chakrakit.sources.pytorch.edges.data_flow import autograd_edges, tensor_edges
from chakrakit.sources.pytorch.edges.device import (
    DeviceModel,
    add_event_causes,
    device_model,
    overlaps,
    start_causes,
)
from chakrakit.sources.pytorch.edges.host import HostModel, add_asynchronous
from chakrakit.sources.pytorch.edges.soundness import SoundGraph, make_sound, violations
from chakrakit.sources.pytorch.edges.waiting import Waits, add_waits

__all__ = [
    "TOLERANCE_NS",
    "Candidates",
    "DeviceModel",
    "HostModel",
    "SoundGraph",
    "Waits",
    "add_asynchronous",
    "add_event_causes",
    "add_waits",
    "autograd_edges",
    "device_model",
    "make_sound",
    "overlaps",
    "start_causes",
    "tensor_edges",
    "violations",
]
