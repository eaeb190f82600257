"""A step that was recorded at a cost, and what is known of a rank once it is linked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.sources.pytorch.linking import InOut, RankReport
from chakrakit.sources.pytorch.linking.step_facts import LinkedRank, RankCard, RankRecording
from chakrakit.trace.model import Trace
from support.recording import Recording


@pytest.fixture
def slow_step(recording: Recording) -> Recording:
    """One step of two operators with a launch each; 500 µs pass before the second launch."""
    recording.op("ProfilerStep#0", 0, 1_000)
    recording.op("aten::a", 10, 80)
    recording.call("cudaLaunchKernel", 20, 5, corr=1)
    recording.op("aten::b", 100, 600)
    recording.call("cudaLaunchKernel", 640, 5, corr=2)
    recording.kernel("k", 30, 10, corr=1)
    recording.kernel("k", 650, 10, corr=2)
    return recording


@pytest.fixture
def linked_rank(tmp_path: Path) -> Callable[..., LinkedRank]:
    """Makes what is known of a rank from its calls and groups; its files are in `tmp_path`."""

    def make(
        calls: Sequence[RecordedCollective] = (),
        groups: dict[str, tuple[int, ...]] | None = None,
        card: dict[str, Any] | None = None,
    ) -> LinkedRank:
        none = InOut(0, 0)
        report = RankReport(
            rank=0,
            files=[str(tmp_path / "et_0.json")],
            host_ops=none,
            device_activities=none,
            device_time_ns=none,
            measured_span_ns=0,
            scheduled_span_ns=0,
            edge_violations=0,
        )
        times = [100] * len(calls)
        seen = RankCollectives(list(calls), times, times)
        facts = RankRecording(None, 0, second_pass=False)
        beside = RankCard(0, tmp_path / "card_0.json", card or {})
        body = Trace.from_columns({"name": []})
        return LinkedRank(
            body=body,
            report=report,
            recorded=seen,
            groups=groups or {},
            epoch=0,
            base_ns=1,
            facts=facts,
            card=beside,
        )

    return make
