"""The passes by name; a pass is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from chakrakit.errors import ConfigError, nearest

if TYPE_CHECKING:
    from chakrakit.passes.base.base import Pass

PASSES = {
    "select": "select:Select",
    "compact": "select:Compact",
    "edit": "recost:Edit",
    "recost": "recost:Recost",
    "scale-ranks": "scale:ScaleRanks",
    "comm": "comm:Comm",
    "storage": "stored:Storage",
    "portable": "portable:Portable",
    "anonymize": "anonymize:Anonymize",
}
"""Name → room of passes and class in it."""


def pass_class(name: str) -> type[Pass]:
    """The class of a pass; a ConfigError names the nearest there is."""
    if name not in PASSES:
        raise ConfigError(f"no pass {name!r}; {nearest(name, PASSES)}")
    module, _, made = PASSES[name].partition(":")
    found: type[Pass] = getattr(import_module(f"chakrakit.passes.{module}"), made)
    return found
