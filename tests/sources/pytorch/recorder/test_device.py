"""The device and its profiler, as far as this build of PyTorch has them."""

import pytest

from chakrakit.sources.pytorch.recorder.profiler import activities, sync_events, synchronize

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("there", "waits"), [(True, 1), (False, 0)])
def test_only_a_device_that_is_there_is_waited_for(monkeypatch, there, waits):
    waited = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    synchronize()
    assert len(waited) == waits


def test_the_host_can_always_be_recorded():
    assert torch.profiler.ProfilerActivity.CPU in activities()


def test_a_build_without_synchronization_events_is_not_asked_for_them(monkeypatch):
    def refuses(**options):
        raise TypeError(options)

    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", refuses)
    assert sync_events() is None
