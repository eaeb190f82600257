"""The card beside a rank's files: what recording costs there, and how long a step takes without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chakrakit.configuration import read_json
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.read import Pair

_AMOUNTS = ("operator_ns", "launch_ns", "call_ns", "observer_ns", "graph_node_ns")
_BARE_MS = "step_ms_back_to_back"
"""What some cards call a step timed without recording, in ms, no synchronisation between steps."""


class RankCard(NamedTuple):
    """The card beside a rank's files; without one, no path and no fields."""

    rank: int
    path: Path | None
    fields: dict[str, Any]

    @property
    def of_collector(self) -> dict[str, Any]:
        """What the collector wrote of this rank; nothing where the card is of all ranks, or another's."""
        own = self.path is not None and self.path.name == f"card_{self.rank}.json"
        return self.fields if own else {}


def cards_of(pairs: Sequence[Pair]) -> list[RankCard]:
    """The card of each rank; one that ranks share is read once."""
    paths = [_card_path(pair) for pair in pairs]
    fields = {path: _fields(path) for path in dict.fromkeys(paths)}
    return [RankCard(pair.rank, p, fields[p]) for pair, p in zip(pairs, paths, strict=True)]


def _fields(path: Path | None) -> dict[str, Any]:
    return {} if path is None else read_json(path, dict[str, Any], "a card beside a recording")


def _card_path(pair: Pair) -> Path | None:
    """The card of a rank: its own, or that of its folder."""
    folder = pair.paths[0].parent
    for name in (f"card_{pair.rank}.json", "card.json"):
        if (folder / name).is_file():
            return folder / name
    cards = sorted(folder.glob("*card*.json"))
    return cards[0] if len(cards) == 1 else None


def overhead_of(card: RankCard) -> Overhead | None:
    """What the rank's card says of recording; None where it says nothing of it."""
    said = card.fields.get("overhead")
    said = said if isinstance(said, dict) else {}
    amounts = {k: _whole(said[k]) for k in _AMOUNTS if k in said}
    step = _whole(said.get("step_ns")) or _whole(_number(card.fields.get(_BARE_MS)) * 1e6)
    if not amounts and not step:
        return None
    return Overhead(**amounts, step_ns=step, measured=bool(amounts))


def _number(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and 0 < value < 1e12 else 0.0  # type: ignore[arg-type, operator]


def _whole(value: object) -> int:
    return round(_number(value))
