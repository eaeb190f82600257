"""A replay as a folder that runs by itself."""

from __future__ import annotations

import gzip
import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.session import export_plans, prepare
from support.recorded import ADD, Sheet, plain, tensor


@pytest.fixture
def made(tmp_path):
    (tmp_path / "recorded").mkdir()
    sheet = Sheet()
    given = [tensor(1, 4), tensor(1, 4), plain(1, "Int")]
    sheet.op("aten::add", ADD, given, [tensor(2, 4)])
    return prepare(sheet.traces(tmp_path / "recorded"), ReplayOptions())


def test_plans_the_runner_and_what_they_say_of_themselves(made, tmp_path):
    folder = tmp_path / "out"
    export_plans(made.plans, made.traces, folder, made.original)
    assert sorted(p.name for p in folder.iterdir()) == [
        "plan_0.json.gz",
        "replay.json",
        "run.py",
        "runner",
    ]
    plan = json.loads(gzip.decompress((folder / "plan_0.json.gz").read_bytes()))
    assert [s["op"] for s in plan["steps"]] == ["aten::add"]
    said = json.loads((folder / "replay.json").read_text())
    assert (said["mode"], said["ranks"][0]["count"]) == ("full", [1, 1])
    assert (folder / "runner" / "operators.txt").is_file()
    assert not list(folder.rglob("__pycache__"))


def test_the_same_replay_is_the_same_bytes(made, tmp_path):
    for name in ("a", "b"):
        export_plans(made.plans, made.traces, tmp_path / name, made.original)
    a, b = ((tmp_path / n / "plan_0.json.gz").read_bytes() for n in ("a", "b"))
    assert a == b


def test_what_is_there_is_not_written_over(made, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ConfigError, match="exists and is not empty; export to a new folder"):
        export_plans(made.plans, made.traces, tmp_path / "out", made.original)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]
