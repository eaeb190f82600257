"""The card beside a rank's files: what recording costs there, and how long a step takes without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chakrakit.configuration import read_json
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.read import Pair

_AMOUNTS = ("operator_ns", "launch_ns", "call_ns", "observer_ns", "graph_node_ns")
_BARE_MS = "step_ms_back_to_back"
"""What some cards call a step timed without recording, in ms, no synchronisation between steps."""


def read_card(path: Path | None) -> dict[str, Any]:
    """A card's fields; none where there is no card."""
    if path is None or not path.is_file():
        return {}
    return read_json(path, dict[str, Any], "a card beside a recording")


def card_of(pair: Pair) -> Path | None:
    """The card of a rank: its own, or that of its folder."""
    folder = pair.paths[0].parent
    for name in (f"card_{pair.rank}.json", "card.json"):
        if (folder / name).is_file():
            return folder / name
    cards = sorted(folder.glob("*card*.json"))
    return cards[0] if len(cards) == 1 else None


def overhead_of(pair: Pair) -> Overhead | None:
    """What the rank's card says of recording; None where it says nothing of it."""
    card = read_card(card_of(pair))
    said = card.get("overhead")
    said = said if isinstance(said, dict) else {}
    amounts = {k: _whole(said[k]) for k in _AMOUNTS if k in said}
    step = _whole(said.get("step_ns")) or _whole(_number(card.get(_BARE_MS)) * 1e6)
    if not amounts and not step:
        return None
    return Overhead(**amounts, step_ns=step, measured=bool(amounts))


def _number(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and 0 < value < 1e12 else 0.0  # type: ignore[arg-type, operator]


def _whole(value: object) -> int:
    return round(_number(value))
