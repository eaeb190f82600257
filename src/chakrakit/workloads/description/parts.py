"""The base of every part of a description."""

from __future__ import annotations

from typing import Any

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a description: immutable, and misspelt fields are refused."""

    def replace(self, **changes: Any) -> Any:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)
