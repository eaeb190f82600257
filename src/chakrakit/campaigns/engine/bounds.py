"""Numbers with bounds, as fields of a job file have them."""

from __future__ import annotations

from typing import Annotated

import msgspec

Nodes = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Spares = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
AtLeastOne = Annotated[float, msgspec.Meta(ge=1)]

LONGEST_PATTERN = 4096
"""Checkpoints after which the pattern of tiers and differences begins again: it is looked through often."""
Differences = Annotated[int, msgspec.Meta(ge=0, lt=LONGEST_PATTERN)]
