"""One open window of the profiler, and the files it leaves."""

import gzip
import json

import pytest

from chakrakit.sources.pytorch.recorder.profiler import ProfilerWindow

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


def names(path):
    text = gzip.decompress(path.read_bytes()).decode()
    said = json.loads(text)
    return [e.get("name") for e in said.get("traceEvents", said.get("nodes"))]


def test_both_files_hold_the_step_and_its_operators(tmp_path):
    kineto, observer = tmp_path / "kineto.json.gz", tmp_path / "et.json.gz"
    recording = ProfilerWindow(kineto, observer, shapes=True, stacks=False)
    recording.begin_step(7)
    torch.ones(2).neg()
    recording.end()
    for path in (kineto, observer):
        assert {"ProfilerStep#7", "aten::neg"} <= set(names(path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["et.json.gz", "kineto.json.gz"]


def test_a_range_is_closed_once(tmp_path):
    recording = ProfilerWindow(tmp_path / "times.json.gz", None, shapes=True, stacks=False)
    recording.begin_step(0)
    recording.end_step()
    recording.end_step()
    recording.end()
    assert names(tmp_path / "times.json.gz").count("ProfilerStep#0") == 1
