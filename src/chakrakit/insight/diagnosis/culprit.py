"""What slowed a job down or stopped it, named so that somebody can go and look at it."""

from __future__ import annotations

from typing import Literal

import msgspec

from chakrakit.results import Result

CulpritKind = Literal[
    "slow-rank",
    "slow-link",
    "slow-stage",
    "slow-replica",
    "slow-operation",
    "sequence-imbalance",
    "garbage-collection",
    "hang",
    "missing-rank",
    "dead-rank",
    "order-mismatch",
    "size-mismatch",
    "type-mismatch",
]
"""What is wrong: something is slow, or a collective can never end."""


class Culprit(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One finding. Fields that do not apply are None; the list in a result is worst first."""

    kind: CulpritKind
    rank: int | None = None
    link: str | None = None
    """A link as the machine names it, or `SRC-DST` in ranks where no machine is known."""
    stage: int | None = None
    """Of a pipeline."""
    collective: str | None = None
    """The collective it was seen in: name and number within its group."""
    since_step: int | None = None
    """The first step that shows it; None where steps are not known."""
    factor: float | None = None
    """How many times longer than its peers' the work, the transfer or the step takes."""
    detail: str = ""
    """The finding in words: what it costs, and what the step would be without it."""
