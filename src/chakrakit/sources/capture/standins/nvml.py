"""NVML, which monitors ask through `pynvml`: the devices that are named, idle."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from chakrakit.sources.capture.observing import Storages
from chakrakit.sources.capture.recording import Patches

_AT_REST = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
    "nvmlDeviceGetTemperature": 0,
    "nvmlDeviceGetPowerUsage": 0,
    "nvmlDeviceGetClockInfo": 0,
}
"""What only a device at work could say."""
_NOT_KNOWN = "pynvml: utilization, temperature, power and clocks are 0 while a program is captured"


def install(
    patches: Patches,
    storages: Storages,
    name: str,
    capability: tuple[int, int],
    count: int,
    memory: int,
) -> None:
    """Answer for devices of this name; where pynvml is not installed, a program finds it missing."""
    if importlib.util.find_spec("pynvml") is None:
        return
    nvml = importlib.import_module("pynvml")

    def at_rest(answer: Any) -> Any:
        patches.warn(_NOT_KNOWN)
        return answer

    unknown = {q: lambda *_, a=a, **__: at_rest(a) for q, a in _AT_REST.items()}
    for question, answer in (unknown | _answers(storages, name, capability, count, memory)).items():
        if hasattr(nvml, question):
            patches.set(nvml, question, answer)


def _answers(
    storages: Storages, name: str, capability: tuple[int, int], count: int, memory: int
) -> dict[str, Callable[..., Any]]:
    def use(*_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(total=memory, used=storages.live, free=memory - storages.live)

    plain: dict[str, Any] = {
        "nvmlInit": None,
        "nvmlInitWithFlags": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": count,
        "nvmlDeviceGetName": f"NVIDIA {name.upper()}",
        "nvmlDeviceGetCudaComputeCapability": capability,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetGraphicsRunningProcesses": [],
    }
    answers: dict[str, Callable[..., Any]] = {
        question: lambda *_, answer=answer, **__: answer for question, answer in plain.items()
    }
    for found in ("Index", "UUID", "PciBusId", "Serial"):
        answers[f"nvmlDeviceGetHandleBy{found}"] = lambda which, *_: which
    return {**answers, "nvmlDeviceGetMemoryInfo": use}
