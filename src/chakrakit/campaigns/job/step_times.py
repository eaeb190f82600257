"""How long a step takes: given, of a Run, or simulated; and with fewer nodes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chakrakit.campaigns.engine import Elastic
from chakrakit.campaigns.job.job_text import CostsText, JobText
from chakrakit.studies.lines import Lines


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The healthy job's step, and what is known beside it."""

    seconds: float
    tokens: int | None = None
    notes: list[str] = []

    def costs(self, text: CostsText) -> CostsText:
        """Costs as given; what the machine says where nothing is given."""
        return text

    def replica_nodes(self, nodes: int) -> int | None:
        """Nodes of one data-parallel replica, where that is known."""
        return None

    def with_fewer(self, nodes: int, size: int, policy: Elastic) -> dict[int, float]:
        """Seconds of a step with fewer nodes, where that can be simulated."""
        return {}


def step_times(text: JobText, lines: Lines) -> StepTimes:
    """What the job file says."""
    if text.step_seconds is not None:
        return StepTimes(seconds=text.step_seconds)
    folder = Path(lines.path).parent
    raise NotImplementedError(folder)
