"""How long a step was while it was recorded, and what to warn of."""

import msgspec

from chakrakit import Card
from chakrakit.trace.sets import RecordedStep, recorded_step_of

MS = 1_000_000


def test_a_step_that_recording_made_much_longer_is_warned_of():
    step = RecordedStep(recorded_step_ns=30 * MS, step_ns=30 * MS, unprofiled_step_ns=20 * MS)
    assert step.dilation == 1.5
    assert step.warning.startswith("recording makes a step 1.50 times as long as it is: 30.00 ms ")
    assert step.lines()[1] == "step: recorded 30.00 ms, un-profiled 20.00 ms"


def test_a_correction_that_suffices_leaves_nothing_to_warn_of():
    step = RecordedStep(
        recorded_step_ns=30 * MS, step_ns=21 * MS, unprofiled_step_ns=20 * MS, corrected="by probes"
    )
    assert step.warning == ""
    assert step.lines() == [
        "step: recorded 30.00 ms, corrected 21.00 ms (by probes), un-profiled 20.00 ms"
    ]


def test_of_steps_the_one_timed_alone_is_the_program_s():
    assert RecordedStep(step_ns=21 * MS, unprofiled_step_ns=20 * MS).program_step_ns == 20 * MS
    assert RecordedStep(recorded_step_ns=30 * MS, step_ns=21 * MS).program_step_ns == 21 * MS


def test_an_estimated_cost_that_leaves_the_bound_open_is_warned_of():
    """The device works 20 ms: nearly all of the shortest step that may be, two thirds of the longest."""
    step = RecordedStep(
        step_ns=24 * MS, corrected="by probes", least_step_ns=21 * MS, most_step_ns=30 * MS
    )
    assert not step.bound_uncertain
    filled = msgspec.structs.replace(step, device_ns=20 * MS)
    assert filled.bound_uncertain
    assert filled.warning.startswith(
        "whether the host or the device bounds this run is not certain"
    )
    assert filled.lines()[1] == "step: corrected 24.00 ms (by probes, 21.00 to 30.00 ms)"
    for device in (18 * MS, 27 * MS):
        assert not msgspec.structs.replace(step, device_ns=device).bound_uncertain


def test_a_bound_that_the_estimated_step_contradicts_is_doubted():
    step = RecordedStep(step_ns=24 * MS, least_step_ns=20 * MS, most_step_ns=30 * MS)
    half, full = (msgspec.structs.replace(step, device_ns=ms * MS) for ms in (10, 29))
    assert half.doubt("device", 24 * MS).endswith("works 10.00 ms of it: that does not fill it.")
    assert full.doubt("host", 24 * MS).endswith("works 29.00 ms of it: that fills it.")
    for fine, bound in ((half, "host"), (full, "device"), (half, "communication")):
        assert not fine.doubt(bound, 24 * MS)
    alone = RecordedStep(step_ns=10 * MS, unprofiled_step_ns=20 * MS)
    assert alone.doubt("device", 10 * MS).startswith("The program alone takes 20.00 ms a step")
    assert not alone.doubt("host", 10 * MS)


def test_without_a_timed_program_there_is_no_dilation():
    assert RecordedStep(step_ns=5).dilation == 0
    assert RecordedStep().lines() == []


def test_a_card_carries_it_and_what_is_no_step_is_none():
    step = RecordedStep(step_ns=7, corrected="x")
    assert recorded_step_of(step.put(Card())) == step
    assert recorded_step_of(Card()) is None
    assert recorded_step_of(Card(measured={"recording": {"step_ns": "soon"}})) is None
    assert recorded_step_of(Card(measured={"recording": 3})) is None
