"""Validation: what is wrong with traces, and the repairs that cannot change what they mean."""

from chakrakit.trace.validation.check import validate
from chakrakit.trace.validation.findings import Finding, Repair, ValidationReport

__all__ = ["Finding", "Repair", "ValidationReport", "validate"]
