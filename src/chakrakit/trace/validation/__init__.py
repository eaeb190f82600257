"""Validation: what is wrong with traces, and the repairs that cannot change what they mean."""

from __future__ import annotations

from chakrakit.trace.validation.check import disagreements, validate
from chakrakit.trace.validation.findings import KEEP, Finding, ValidationReport
from chakrakit.trace.validation.fixes import fix

__all__ = ["KEEP", "Finding", "ValidationReport", "disagreements", "fix", "validate"]
