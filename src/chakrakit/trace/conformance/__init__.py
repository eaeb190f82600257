"""A conformance set of the format: small traces, and what every implementation should read from them."""

from __future__ import annotations

from chakrakit.trace.conformance.cases import CASES, Case, TraceFacts, facts_of, write_cases
from chakrakit.trace.conformance.checking import ConformanceResult, Verdict, check

__all__ = [
    "CASES",
    "Case",
    "ConformanceResult",
    "TraceFacts",
    "Verdict",
    "check",
    "facts_of",
    "write_cases",
]
