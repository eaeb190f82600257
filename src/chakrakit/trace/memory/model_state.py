"""Model state: what a rank holds from before the step to after it, kept in its trace's header.

The header attribute `model_state` is a JSON list of parts, so that it goes wherever the trace goes: into
every format, through every pass, onto every rank that runs the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from chakrakit.errors import FormatError
from chakrakit.trace.memory.allocations import BEFORE, KINDS, Allocations
from chakrakit.trace.model import Metadata, Trace

ATTRIBUTE = "model_state"


class StatePart(msgspec.Struct, frozen=True, omit_defaults=True):
    """`bytes` of one kind. Where a group shards them, each member has ceil(elements / members) × width."""

    kind: str
    bytes: int
    role: str = ""
    elements: int = 0
    width: int = 0

    def resharded(self, members: int) -> StatePart:
        """The same with the shards of a group of another size."""
        return msgspec.structs.replace(self, bytes=-(-self.elements // members) * self.width)


_Parts = msgspec.json.Decoder(list[StatePart])


def state_attribute(parts: Iterable[StatePart]) -> dict[str, str]:
    """The header attribute that holds these parts; {} where they are all empty."""
    text = msgspec.json.encode([p for p in parts if p.bytes]).decode()
    return {ATTRIBUTE: text} if text != "[]" else {}


def model_state(trace: Trace) -> list[StatePart]:
    """The parts in a trace's header; [] where it has none."""
    text = trace.metadata.attributes.get(ATTRIBUTE)
    if text is None:
        return []
    try:
        parts = _Parts.decode(str(text))
    except msgspec.MsgspecError as error:
        raise FormatError(f"the header's {ATTRIBUTE} is damaged: {error}") from None
    for part in parts:
        if part.kind not in KINDS or not 0 <= part.bytes < 2**62:
            raise FormatError(
                f"the header's {ATTRIBUTE} is damaged: {part.bytes} bytes of {part.kind!r}; the "
                f"kinds are {', '.join(KINDS)}"
            )
    return parts


def with_model_state(trace: Trace, parts: Iterable[StatePart]) -> Trace:
    """The trace with this state in its header; other attributes stay."""
    other_attributes = {k: v for k, v in trace.metadata.attributes.items() if k != ATTRIBUTE}
    plain = {k: v for k, v in other_attributes.items() if isinstance(v, str | int | float | bool)}
    header = Metadata.of(trace.metadata.version, **plain, **state_attribute(parts))
    return trace.with_metadata(header)


def reshard_state(trace: Trace, members: Mapping[str, int]) -> Trace:
    """The trace with its state resharded for groups of new sizes: role → number of members."""
    parts = model_state(trace)
    changed = [p.resharded(members[p.role]) if members.get(p.role) else p for p in parts]
    return trace if changed == parts else with_model_state(trace, changed)


def from_model_state(trace: Trace) -> Allocations | None:
    """The model state as allocations before the first row; None without one."""
    parts = [p for p in model_state(trace) if p.bytes]
    if not parts:
        return None
    return Allocations(
        row=np.full(len(parts), BEFORE, np.int64),
        at_end=np.zeros(len(parts), np.bool_),
        bytes=np.array([p.bytes for p in parts], np.int64),
        kind=np.array([KINDS.index(p.kind) for p in parts], np.int8),
        label=np.zeros(len(parts), np.int32),
        labels=("(model state)",),
        source="model state",
    )
