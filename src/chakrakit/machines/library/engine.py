"""All-reduce as serving engines do it: every member reads its peers' memory.

One-shot: each member reads and adds all of every peer's buffer. Two-shot: each reduces its own piece, and
after a barrier reads the others' results.
"""

from __future__ import annotations

from chakrakit.machines.library.constants import Engine
from chakrakit.machines.library.cost import NEVER, US, Cost
from chakrakit.machines.library.span import Span


def engine_kernel(engine: Engine, size: float, span: Span) -> str:
    """`one-shot` or `two-shot`."""
    if span.members == 2:
        return "one-shot"
    most = next((b for n, b in sorted(engine.one_shot.items()) if span.members <= n), 0)
    return "one-shot" if size < most else "two-shot"


def engine_cost(engine: Engine, size: float, span: Span, *, eager: bool = False) -> Cost:
    """The cost; infinite between nodes and above the engine's limit, where it calls the library."""
    if span.nodes > 1 or size > engine.most:
        return NEVER
    peers, flow = span.members - 1, size / (engine.share * span.link)
    one = engine_kernel(engine, size, span) == "one-shot"
    fixed = engine.start_us + engine.peer_us * peers + (0.0 if one else engine.barrier_us)
    transfer = peers * flow if one else 2 * peers / span.members * flow
    if eager:
        fixed = max(fixed, engine.eager_us - transfer / US)
    return Cost(fixed * US, 0.0, transfer)
