"""PyTorch's files as columns: the observer's JSON, Kineto's JSON, and which files belong together."""

from __future__ import annotations

from chakrakit.sources.pytorch.read.files import Pair, find_pairs, identify, read_bytes
from chakrakit.sources.pytorch.read.kineto import Kind, Kineto, read_kineto
from chakrakit.sources.pytorch.read.observer import Extras, Observer, read_observer
from chakrakit.sources.pytorch.read.texts import Texts

__all__ = [
    "Extras",
    "Kind",
    "Kineto",
    "Observer",
    "Pair",
    "Texts",
    "find_pairs",
    "identify",
    "read_bytes",
    "read_kineto",
    "read_observer",
]
