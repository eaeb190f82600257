"""Formulas that some policies choose the interval between checkpoints by.

C is the time of a checkpoint, τ the interval between two, M the mean time between failures.
J. W. Young, CACM 17 (1974); J. T. Daly, Future Generation Computer Systems 22 (2006).
"""

from __future__ import annotations

import math


def young_interval(checkpoint: float, mtbf: float) -> float:
    """τ = √(2·C·M)."""
    return math.sqrt(2 * checkpoint * mtbf) if checkpoint > 0 else 0.0


def daly_interval(checkpoint: float, mtbf: float) -> float:
    """τ = √(2·C·M)·(1 + ⅓·√(C/2M) + ⅑·C/2M) − C, and M where a checkpoint takes 2·M or more."""
    if math.isinf(mtbf):
        return mtbf
    if checkpoint >= 2 * mtbf:
        return mtbf
    part = checkpoint / (2 * mtbf)
    return young_interval(checkpoint, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - checkpoint
