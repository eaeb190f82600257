"""Mail: what one rank tells the others in words, kept from one capture to the next."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any


class Mail:
    """Pickled values by name. What earlier captures `put` is there for later ones to `get`.

    All of it is made and read by processes of this very capture.
    """

    def __init__(self, received: Mapping[str, bytes]) -> None:
        self.received = dict(received)
        self.sent: dict[str, bytes] = {}

    def put(self, name: str, value: Any) -> None:
        """Tell the ranks captured after this one; what cannot be pickled stays untold."""
        try:
            self.sent[name] = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
            self.sent.pop(name, None)

    def get(self, name: str) -> Any:
        """What somebody told, or None."""
        found = self.sent.get(name) or self.received.get(name)
        return None if found is None else pickle.loads(found)

    def names(self) -> list[str]:
        """Everything there is."""
        return [*self.received, *self.sent]
