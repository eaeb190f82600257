"""Engines: options in the simulator's own terms, and presets in the engines' terms."""

from chakrakit.serving.engine.options import EngineOptions
from chakrakit.serving.engine.presets import PRESETS, batch_limits, engine_from

__all__ = ["PRESETS", "EngineOptions", "batch_limits", "engine_from"]
