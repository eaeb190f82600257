"""Fail-slow, stragglers and hangs: who is to blame, since when, and by how much."""

from __future__ import annotations

from chakrakit.insight.diagnosis.culprit import Culprit, CulpritKind

__all__ = ["Culprit", "CulpritKind"]
