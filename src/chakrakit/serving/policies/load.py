"""A policy by name: `FILE.py:CLASS`, or `package.module:CLASS`."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError


def policy_from(text: str) -> Any:
    """An instance of the class."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ConfigError(f"--policy {text!r}: should look like FILE.py:CLASS")
    made = getattr(_module(place, text), name, None)
    if not callable(made):
        raise ConfigError(f"--policy {text!r}: {place} has no class {name}")
    return made()


def _module(place: str, text: str) -> Any:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise ConfigError(f"--policy {text!r}: {error}") from None
    if not Path(place).is_file():
        raise ConfigError(f"--policy {text!r}: no file {place}")
    spec = importlib.util.spec_from_file_location("chakra_policy", place)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--policy {text!r}: {place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
