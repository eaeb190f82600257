"""torch.cuda on a machine that has none."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing import ProgramStreams, Storages
from chakrakit.sources.capture.standins import Cuda, Redirect
from chakrakit.sources.capture.standins.cuda import is_cuda


@pytest.fixture
def storages():
    return Storages()


@pytest.fixture
def streams():
    return ProgramStreams()


@pytest.fixture
def told(patches, storages, streams):
    """A script that is told of eight H100s, of which it has the third."""
    Cuda(patches, storages, streams, "h100", local_rank=2, count=8, memory=1 << 30).install()


def test_a_script_is_told_of_the_devices_asked_for(told):
    assert torch.cuda.is_available()
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (8, 2)
    assert torch.cuda.get_device_name() == "H100"
    assert torch.cuda.get_device_properties(0).total_memory == 1 << 30


def test_without_a_device_there_is_none(patches, storages, streams):
    Cuda(patches, storages, streams, "", 0, 1, 0).install()
    assert (torch.cuda.is_available(), torch.cuda.device_count()) == (False, 0)


def test_what_does_nothing_is_listed_once_called(told, patches):
    torch.cuda.synchronize()
    torch.cuda.set_device(2)
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.nvtx.range("x"):
        pass
    assert list(patches.stubbed) == ["torch.cuda.synchronize", "torch.cuda.set_device"]


def test_memory_statistics_are_those_of_the_captured_program(told, storages):
    held = torch.empty(256)
    storages.number(held)
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == 1024
    stats = torch.cuda.memory_stats()
    assert (stats["allocated_bytes.all.peak"], stats["num_ooms"]) == (1024, 0)


@pytest.mark.parametrize(
    ("device", "answer"),
    [("cuda", True), ("cuda:3", True), (0, True), (torch.device("cuda", 1), True), ("cpu", False),
     (None, False), (True, False), ("cudax", False)],
)  # fmt: skip
def test_every_spelling_of_a_gpu(device, answer):
    assert is_cuda(device) is answer


def test_what_asks_for_a_gpu_is_on_the_host_and_counts_as_being_on_the_device(storages):
    with Redirect(storages):
        host = torch.ones(256)
        made = torch.ones(512, device="cuda:0")
        moved = host.to("cuda")
        again = moved.cuda()
    assert {t.device.type for t in (host, made, moved, again)} == {"cpu"}
    assert moved.untyped_storage()._cdata != host.untyped_storage()._cdata
    assert again is moved
    on_device = [storages.on_device(storages.number(t)) for t in (host, made, moved)]
    assert on_device == [False, True, True]
    assert storages.live == 2048 + 1024


def test_streams_and_events_exist_and_nothing_is_running(told):
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    assert (stream.query(), event.query(), stream.is_capturing()) == (True, True, False)
    assert event.elapsed_time(stream.record_event()) == 1.0
    with stream as entered:
        assert entered is stream is torch.cuda.current_stream()
    assert torch.cuda.current_stream() is torch.cuda.default_stream()


def test_what_a_stream_is_made_to_wait_for_holds_back_what_is_issued_next_on_it(told, streams):
    side = torch.cuda.Stream()
    assert streams.issue(0) == []
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert streams.current != torch.cuda.default_stream().number
        assert streams.issue(1) == [0]
        assert streams.issue(2) == []  # which comes after the operator before it anyway
    event = side.record_event()
    with torch.cuda.stream(side):
        streams.issue(3)
    assert streams.issue(4) == []  # nobody has waited yet
    event.wait()
    assert streams.issue(5) == [2]
    torch.cuda.current_stream().wait_event(torch.cuda.Event())  # never recorded
    assert streams.issue(6) == []


def test_the_host_that_stands_in_has_the_same_streams(told):
    """FSDP asks the device of its tensors for them."""
    assert torch.cpu.Stream is torch.cuda.Stream
    assert torch.cpu.current_stream() is torch.cuda.current_stream()


def test_generators_have_states_that_can_be_put_back(told):
    """As frameworks do that keep a state for each kind of parallelism."""
    state = torch.cuda.random.get_rng_state(device="cuda")
    torch.cuda.default_generators[torch.cuda.current_device()].set_state(state)
    assert len(torch.cuda.default_generators) == 8
