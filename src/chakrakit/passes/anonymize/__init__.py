"""What may be shared of a trace, and nothing else."""

from __future__ import annotations

from chakrakit.passes.anonymize.anonymize import Anonymize

__all__ = ["Anonymize"]
