"""What is known of one linked rank while the ranks are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chakrakit.sources.pytorch.communication import Groups as RecordedGroups
from chakrakit.sources.pytorch.communication import Recorded
from chakrakit.sources.pytorch.linking.cards import RankCard
from chakrakit.sources.pytorch.linking.report import RankReport
from chakrakit.sources.pytorch.linking.step_facts import RankRecording
from chakrakit.trace.communication import Body


@dataclass
class LinkedRank:
    """What is known of one rank; from a worker, the trace stays on disk until it is asked for."""

    body: Body
    report: RankReport
    recorded: Recorded
    groups: RecordedGroups
    epoch: int
    base_ns: int
    facts: RankRecording
    card: RankCard


def list_of(linked: LinkedRank) -> list[Any]:
    """A rank's collectives, to be changed in place."""
    found = linked.recorded.collectives
    assert isinstance(found, list)
    return found
