"""`link`: the files of all ranks in, one Run and a report out."""

from __future__ import annotations

from chakrakit.sources.pytorch.linking.linker import LinkOptions, link
from chakrakit.sources.pytorch.linking.report import LinkReport, RankReport

__all__ = ["LinkOptions", "LinkReport", "RankReport", "link"]
