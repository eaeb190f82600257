"""Monitors that ask NVML see the devices that are named."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from chakrakit.sources.capture.observing import Storages
from chakrakit.sources.capture.standins import nvml


@pytest.fixture
def pynvml(monkeypatch, patches):
    """A pynvml whose library is missing, as on a machine without a GPU."""
    module = ModuleType("pynvml")
    module.__spec__ = object()

    def missing(*_):
        raise OSError("NVML Shared Library Not Found")

    names = ("Init", "Shutdown", "DeviceGetCount", "DeviceGetName", "DeviceGetMemoryInfo")
    for name in (*names, "DeviceGetHandleByIndex", "DeviceGetUtilizationRates"):
        setattr(module, f"nvml{name}", missing)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    nvml.install(patches, Storages(), "h100-sxm", (9, 0), count=8, memory=80 << 30)
    return module


def test_the_named_devices_answer(pynvml, patches):
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(3)
    assert (pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetName(device)) == (8, "NVIDIA H100-SXM")
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    assert (memory.total, memory.used, memory.free) == (80 << 30, 0, 80 << 30)
    assert not patches.warnings
    assert pynvml.nvmlDeviceGetUtilizationRates(device).gpu == 0
    assert [text.partition(" are ")[2] for text in patches.warnings] == [
        "0 while a program is captured"
    ]


def test_the_library_is_as_before_afterwards(pynvml, patches):
    patches.undo()
    with pytest.raises(OSError, match="Not Found"):
        pynvml.nvmlInit()
