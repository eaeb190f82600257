"""A workload that is captured: a script's command line with places for what the axes say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.sources.capture import capture_traces
from chakrakit.trace.sets import TraceSet

_PLACE = re.compile(r"\{(\w+)\}")


class Captured(msgspec.Struct, frozen=True):
    """`workload: {capture: python train.py --tp {tp}, ranks: 64, device: h100}` at one point."""

    capture: str
    ranks: int
    device: str = ""
    steps: str | None = None

    def traces(self) -> TraceSet:
        """The traces, with the bytes a rank needs in their card's `measured`."""
        traces, report = capture_traces(
            shlex.split(self.capture), ranks=self.ranks, device=self.device, steps=self.steps
        )
        measured = {
            "tokens": 0,
            "bubble_fraction": 0.0,
            "memory_bytes": max(k.peak_bytes for k in report.kinds),
        }
        return traces.with_card(traces.card.replace(measured=measured))


def is_captured(plain: Mapping[str, Any]) -> bool:
    """Whether a study's workload is a script."""
    return "capture" in plain


def captured_of(plain: Mapping[str, Any], fields: Mapping[str, Any]) -> Captured:
    """The workload at one point: axes fill places of the command, or are its ranks, device or steps."""
    own = {f.name for f in msgspec.structs.fields(Captured)} - {"capture"}
    text = str(plain["capture"])
    for name, value in fields.items():
        if name not in own and f"{{{name}}}" not in text:
            raise ConfigError(f"axis {name!r} has no place {{{name}}} in the command {text!r}")
        text = text.replace(f"{{{name}}}", str(value))
    left = _PLACE.search(text)
    if left is not None:
        raise ConfigError(
            f"the command {text!r} has a place {left[0]}, and no axis is called {left[1]!r}"
        )
    given = {k: v for k, v in {**plain, **fields}.items() if k in own}
    try:
        return msgspec.convert({**given, "capture": text}, Captured)
    except msgspec.ValidationError as error:
        raise ConfigError(f"workload: {error}") from None
