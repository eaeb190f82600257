"""What linking found, matched, repaired and left out."""

from __future__ import annotations

import json

from chakrakit.sources.pytorch.linking import InOut, LinkReport
from chakrakit.sources.pytorch.linking.rank import link_rank
from chakrakit.sources.pytorch.linking.report import report_rank
from chakrakit.sources.pytorch.read import read_kineto, read_observer
from chakrakit.trace.sets import RecordedStep


def test_everything_is_counted_and_the_schedule_is_the_measurement(slow_step):
    found = report_rank(slow_step.link(), ["et.json", "kineto.json"])
    assert found.files == ["et.json", "kineto.json"]
    assert (found.host_ops, found.runtime_calls, found.annotations) == (InOut(3, 3), 2, 1)
    assert (found.device_activities, found.device_time_ns) == (InOut(2, 2), InOut(20_000, 20_000))
    assert found.matched_by == {"record function id": 3}
    assert found.measured_span_ns == found.scheduled_span_ns == 1_000_000
    assert found.start_error_ns == {"median": 0, "largest": 0}
    assert (found.edges["launch"], found.edges["stream"], found.edge_violations) == (2, 1, 0)
    assert found.warnings == []


def test_what_is_no_node_is_counted_by_what_it_is(slow_step):
    slow_step.sync("Stream Sync", 700, 5, stream=7, corr=3)
    slow_step._event("overhead", "Buffer Flush", 0, 705, 1)
    slow_step._event("python_function", "train.py(3)", 1, 0, 9)
    found = report_rank(slow_step.link(), [])
    assert found.left_out_events == {"cuda_sync": 1, "overhead": 1, "python_function": 1}


def test_an_operator_without_times_is_placed_and_said(slow_step):
    slow_step.op("aten::lost", 900, 5)
    slow_step.events.pop()
    found = report_rank(slow_step.link(), [])
    assert found.host_ops == InOut(4, 4)
    assert found.repaired == {"placed_without_time": 1}


def test_kineto_alone_counts_its_own_operators(slow_step):
    rank = link_rank(0, None, read_kineto(slow_step.kineto_json().encode()))
    assert report_rank(rank, []).host_ops == InOut(3, 3)


def test_damage_is_warned_of(slow_step):
    newer = json.loads(slow_step.observer_json()) | {"schema": "9.0"}
    text = slow_step.kineto_json()[:-2]  # without the brackets that close the list and the file
    rank = link_rank(0, read_observer(json.dumps(newer).encode()), read_kineto(text.encode()))
    found = report_rank(rank, [])
    assert found.warnings == [
        "schema '9.0' is newer than what is known here; read by its keys",
        "the Kineto file ends early; what it holds is linked",
    ]
    assert found.repaired == {"kineto_truncated": 1}


def test_the_step_is_said_once_and_under_its_older_names():
    step = RecordedStep(
        recorded_step_ns=30, step_ns=21, unprofiled_step_ns=10, corrected="by probes"
    )
    report = LinkReport(ranks=[], recording=step)
    assert (report.step_ns, report.recorded_step_ns, report.unprofiled_step_ns) == (21, 30, 10)
    assert (report.corrected_step_ns, report.corrected) == (21, "by probes")
    assert report.warning == step.warning != ""
    uncorrected = LinkReport(ranks=[], recording=RecordedStep(recorded_step_ns=30, step_ns=30))
    assert (uncorrected.step_ns, uncorrected.corrected_step_ns) == (30, 0)
