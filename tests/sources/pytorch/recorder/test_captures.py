"""CUDA graphs being captured: each is recorded by itself, unless steps are."""

from pathlib import Path

import pytest

from chakrakit.sources.pytorch.recorder import profiler

torch = pytest.importorskip("torch")


class Graph:
    """Stands for `torch.cuda.graph`."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.fixture
def made(monkeypatch):
    """Files of the recordings that were made, in order; * marks those that ended."""
    found = []

    class Recording:
        def __init__(self, path, observer, **how):
            self.name = path.name
            found.append(path.name)

        def end(self):
            found.append(f"{self.name} *")

    monkeypatch.setattr(profiler, "ProfilerWindow", Recording)
    monkeypatch.setattr(torch.cuda, "graph", Graph)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return found


def path_of(number):
    return Path(f"capture_{number}")


def test_every_capture_is_recorded_until_that_is_undone(made):
    restore = profiler.record_captures(path_of, lambda: True)
    for _ in range(2):
        with torch.cuda.graph():
            pass
    restore()
    with torch.cuda.graph():
        pass
    assert made == ["capture_0", "capture_0 *", "capture_1", "capture_1 *"]


def test_a_capture_inside_recorded_steps_is_part_of_their_recording(made):
    restore = profiler.record_captures(path_of, lambda: False)
    with torch.cuda.graph():
        pass
    restore()
    assert made == []


def test_a_capture_that_fails_ends_its_recording(made):
    restore = profiler.record_captures(path_of, lambda: True)
    with pytest.raises(RuntimeError), torch.cuda.graph():
        raise RuntimeError
    restore()
    assert made == ["capture_0", "capture_0 *"]


def test_captures_are_recorded_up_to_a_limit(made):
    restore = profiler.record_captures(path_of, lambda: True)
    for _ in range(70):
        with torch.cuda.graph():
            pass
    restore()
    assert made[-1] == "capture_63 *"


def test_without_a_device_nothing_is_changed(made, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    enter = Graph.__enter__
    profiler.record_captures(path_of, lambda: True)()
    assert Graph.__enter__ is enter
