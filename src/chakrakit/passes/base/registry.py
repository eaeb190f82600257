"""The passes by name; a pass is imported when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.passes.base.base import Pass

PASSES = {
    "select": "select:Select",
    "compact": "select:Compact",
    "edit": "recost:Edit",
    "recost": "recost:Recost",
    "scale-ranks": "scale:ScaleRanks",
    "comm": "comm:Comm",
    "portable": "portable:Portable",
    "anonymize": "anonymize:Anonymize",
}
"""Name → room of passes and class in it."""


def pass_class(name: str) -> type[Pass]:
    """The class of a pass; a ConfigError names the nearest there is."""
    if name not in PASSES:
        close = get_close_matches(name, PASSES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(PASSES)}"
        raise ConfigError(f"no pass {name!r}; {hint}")
    module, _, made = PASSES[name].partition(":")
    found: type[Pass] = getattr(import_module(f"chakrakit.passes.{module}"), made)
    return found
