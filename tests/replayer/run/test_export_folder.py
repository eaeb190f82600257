"""A replay as a folder that runs by itself."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.export_folder import export_plans
from chakrakit.replayer.run.session import prepare


@pytest.fixture
def made():
    """Two ranks that wait 5 ns and reduce."""
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 8, deps=[t.comp("a", duration_ns=5)])
    traces = ck.TraceSet([t.build()] * 2, groups=ck.Groups({"0": [0, 1]}))
    return prepare(traces, ReplayOptions(mode="emulate"))


def test_plans_runner_and_trace_are_there(made, tmp_path):
    folder = tmp_path / "out"
    export_plans(made.plans, made.traces, folder, made.original)
    assert sorted(p.name for p in folder.iterdir()) == [
        "plan_0.json.gz",
        "plan_1.json.gz",
        "replay.json",
        "run.py",
        "runner",
        "trace",
    ]
    assert (folder / "runner" / "guard" / "room.py").is_file()
    assert not list(folder.rglob("__pycache__"))
    plan = json.loads(gzip.decompress((folder / "plan_1.json.gz").read_bytes()))
    assert plan == json.loads(msgspec.json.encode(made.plans[1]))
    said = json.loads((folder / "replay.json").read_bytes())
    assert (said["mode"], [r["rank"] for r in said["ranks"]]) == ("emulate", [0, 1])


def test_the_same_plan_is_the_same_bytes(made, tmp_path):
    for name in "ab":
        export_plans(made.plans, made.traces, tmp_path / name, made.original)
    files = [(tmp_path / name / "plan_0.json.gz").read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_an_empty_folder_is_filled_and_no_other(made, tmp_path):
    export_plans(made.plans, made.traces, tmp_path, made.original)
    with pytest.raises(ConfigError, match="exists and is not empty; export to a new folder"):
        export_plans(made.plans, made.traces, tmp_path, made.original)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="exists and is not empty"):
        export_plans(made.plans, made.traces, tmp_path / "file", made.original)
