"""Engines: options in the simulator's own terms, and presets in the engines' terms."""

from chakrakit.serving.engine.options import DISCIPLINES, EngineOptions
from chakrakit.serving.engine.presets import PRESETS, engine_from

__all__ = ["DISCIPLINES", "PRESETS", "EngineOptions", "engine_from"]
