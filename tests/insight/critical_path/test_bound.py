"""What bounds a run, by what each resource would save."""

from __future__ import annotations

import pytest

from chakrakit.insight.critical_path.bound import judged, with_loader


def test_waiting_for_a_loader_is_taken_from_what_the_host_saves() -> None:
    host = judged({"host": 0.5}, 1.0)
    assert with_loader(host, 0.9).name == "data"
    assert with_loader(host, 0.9).saves == pytest.approx({"data": 0.45, "host": 0.05})
    assert with_loader(host, 0.48).name == "balanced"
    assert with_loader(host, 0.2).name == "host"
    assert with_loader(host, 0.0) == host


def test_a_loader_saves_no_more_than_the_host_it_runs_on() -> None:
    """Where the device is busy meanwhile, the loader's time is not what the step waits for."""
    device = judged({"device": 0.4, "host": 0.02}, 0.9)
    assert with_loader(device, 0.5).name == "device"
    assert with_loader(device, 0.5).saves["data"] == 0.02
    assert with_loader(judged({"device": 0.4}, 0.9), 0.5).saves == {"device": 0.4}
