"""What bounds a run, by what each resource would save."""

from __future__ import annotations

import pytest

from chakrakit.insight.critical_path.bound import judged, path_bound, with_loader


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


@pytest.mark.parametrize("on_device", [True, False])
def test_a_path_saves_half_of_what_lies_on_it_and_names_stores_where_it_is_on_them(
    on_device: bool,
) -> None:
    path = {"compute": 50, "copy": 10, "launch": 20, "gap": 20}
    device = "device" if on_device else "computation"
    saves = {device: 0.3, "communication": 0.0, "host": 0.1}
    assert path_bound(path, on_device).saves == pytest.approx(saves)
    stored = path_bound({**path, "load": 100}, on_device)
    assert stored.name == "data"
    assert stored.saves == pytest.approx({k: v / 2 for k, v in saves.items()} | {"data": 0.25})
    assert path_bound({}, on_device).name == ""
