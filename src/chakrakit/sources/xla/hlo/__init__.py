"""HLO modules: the program that XLA compiled for every device, read from protobuf or text."""

from __future__ import annotations

from chakrakit.sources.xla.hlo.model import Computation, Instruction, Module, Shape
from chakrakit.sources.xla.hlo.read import is_hlo, parse_hlo
from chakrakit.sources.xla.hlo.wire import Message

__all__ = ["Computation", "Instruction", "Message", "Module", "Shape", "is_hlo", "parse_hlo"]
