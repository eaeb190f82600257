"""`link`: the files of all ranks in, one Run and a report out."""

from __future__ import annotations

from chakrakit.sources.pytorch.linking.linker import LinkOptions, link, link_files, workers_for
from chakrakit.sources.pytorch.linking.report import InOut, LinkReport, RankReport

__all__ = ["InOut", "LinkOptions", "LinkReport", "RankReport", "link", "link_files", "workers_for"]
