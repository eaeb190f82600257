"""Pipelines without neighbours: stages learn shapes from captures made before."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.observing import Whereabouts
from chakrakit.sources.capture.recording import NeedsValue
from chakrakit.sources.capture.standins import Mail, pipelining


@pytest.fixture
def mail():
    """Stages 0 and 1 have told what their outputs look like."""
    made = Mail({})
    for stage in (0, 1):
        made.put(f"output of stage {stage}", f"like {stage}")
    return made


def test_an_input_looks_like_the_output_of_the_stage_before(mail, patches):
    assert pipelining._meta_before(2, 1, mail, patches) == "like 1"
    assert list(patches.warnings) == []


def test_a_stage_that_was_not_captured_yet_is_stood_for_and_that_is_said(mail, patches):
    assert pipelining._meta_before(4, 3, mail, patches) == "like 1"
    assert list(patches.warnings) == ["stage 4: its input is taken to look like stage 1's output"]


def test_where_nothing_is_known_the_shapes_are_asked_for(patches):
    with pytest.raises(NeedsValue, match="give PipelineStage its input_args and output_args"):
        pipelining._meta_before(1, 0, Mail({}), patches)


def test_operators_inside_are_of_the_micro_batch():
    where, seen = Whereabouts(), []
    run = pipelining._numbered(where)(lambda stage, *a, **k: seen.append(where.micro_batch))
    run("stage", 3)
    run("stage", fwd_chunk_id=5)
    assert (seen, where.micro_batch) == ([3, 5], -1)


def test_stages_are_set_up_unrecorded(recorder):
    def fails():
        assert not recorder.recording
        raise RuntimeError

    with pytest.raises(RuntimeError):
        pipelining._unrecorded(recorder)(fails)()
    assert recorder.recording
