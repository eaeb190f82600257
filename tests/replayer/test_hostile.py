"""Traces and plans that mean harm or nonsense: one clear error, before PyTorch is even asked for."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.errors import ChakraError, TraceError
from chakrakit.replayer import ReplayOptions, export
from chakrakit.replayer.runner.limits import ReplayError, read_plan
from chakrakit.replayer.session import prepare
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet
from support.recorded import ADD, ALL_REDUCE, FUNCTIONAL, Sheet, plain, several, tensor

ONE = plain(1, "Int")


def add(left, right, out):
    return ("aten::add", ADD, [left, right, ONE], [out])


def broken(shape=None, **changes):
    found = tensor(1, 4) | ({} if shape is None else {"shape": shape})
    for name, value in changes.items():
        place = {"offset": 2, "elements": 3, "width": 4}[name]
        found["value"] = [*found["value"][:place], value, *found["value"][place + 1 :]]
    return found


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (broken(shape=[-4]), "-4 in a tensor's shape"),
        (broken(shape=[1 << 62]), "in a tensor's shape"),
        (broken(shape=[1 << 40, 1 << 40], elements=1 << 80), "no machine has them"),
        (broken(offset=-1), "offset -1"),
        (broken(elements=5), "cannot have 5 elements"),
        (broken(width=2), "have 4 bytes, not 2"),
        (broken(shape=["4; import os"]), "sizes are numbers"),
    ],
)
def test_shapes_that_cannot_be(tmp_path, bad, said):
    sheet = Sheet()
    sheet.op(*add(bad, tensor(2, 4), tensor(3, 4)))
    with pytest.raises(TraceError, match=said):
        prepare(sheet.traces(tmp_path), ReplayOptions())


@pytest.mark.parametrize(
    "schema",
    ["os::system(str command) -> ()", "aten::no_such_thing(Tensor x) -> Tensor", "nonsense("],
)
def test_a_trace_of_unknown_operators_alone_is_refused(tmp_path, schema):
    sheet = Sheet()
    sheet.op("x", schema, [plain("rm -rf", "String")])
    with pytest.raises(TraceError, match="nothing here is an operator"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


def test_an_operator_that_touches_files_ends_it_all(tmp_path):
    sheet = Sheet()
    sheet.op(*add(tensor(1, 4), tensor(2, 4), tensor(3, 4)))
    schema = "aten::from_file(str filename, bool? shared=None, int? size=0) -> Tensor"
    sheet.op("aten::from_file", schema, [plain("/etc/passwd", "String")])
    with pytest.raises(TraceError, match="opens a file"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


def collective(sheet, group):
    given = [tensor(1, 4), plain("sum", "String"), plain(group, "String")]
    sheet.op("_c10d_functional::all_reduce", FUNCTIONAL, given, [tensor(2, 4)])


def test_a_group_that_is_not_there(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]), ("3", [0]))
    collective(sheet, "7")
    with pytest.raises(TraceError, match=r"no group '7'; there are 1, 3"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


def test_a_group_that_the_rank_is_not_in(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]), ("3", [4, 5]))
    collective(sheet, "3")
    with pytest.raises(TraceError, match=r"rank 0 is not in group '3' \(4, 5\)"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


def test_communication_of_nobody_knows_which_group(tmp_path):
    sheet = Sheet()
    sheet.groups(("1", [0, 1]), ("2", [0, 2]))
    given = [several(tensor(1, 4)), *(plain("<Object>", "Object"),) * 2, plain("<None>", "None")]
    sheet.op("c10d::allreduce_", ALL_REDUCE, given)
    with pytest.raises(TraceError, match="does not say its group"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


def two_that_wait_for_each_other():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=5)
    b = t.collective("b", CollectiveType.ALL_REDUCE, 64, deps=[a])
    t.edge(b, a)
    return TraceSet([t.build()])


@pytest.mark.parametrize("mode", ["full", "comm", "emulate"])
def test_a_circle(mode):
    with pytest.raises(TraceError, match="waits for itself, over 2 nodes"):
        prepare(two_that_wait_for_each_other(), ReplayOptions(mode=mode))


@pytest.mark.parametrize(
    ("attributes", "said"),
    [({"comm_size": -5}, "comm_size of -5"), ({"pg_name": "9"}, "no group '9'")],
)
def test_communication_that_cannot_be(attributes, said):
    t = TraceBuilder()
    t.collective("b", CollectiveType.ALL_REDUCE, 64, **{"duration_ns": 7, **attributes})
    with pytest.raises(TraceError, match=said):
        prepare(TraceSet([t.build()]), ReplayOptions(mode="comm"))


# --- plans are files too --------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path):
    sheet = Sheet()
    sheet.op(*add(tensor(1, 4), tensor(2, 4), tensor(3, 4)))
    export(str(sheet.write(tmp_path / "et_0.json")), tmp_path / "replay", ReplayOptions())
    return tmp_path / "replay" / "plan_0.json.gz"


def changed(path, change):
    plan = json.loads(gzip.decompress(path.read_bytes()))
    change(plan)
    path.write_bytes(gzip.compress(json.dumps(plan).encode()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p["steps"][0].update(op="os::system"), "not one that a replay calls"),
        (lambda p: p["steps"][0].update(op="aten::from_file"), "not one that a replay calls"),
        (lambda p: p["steps"][0].update(do="exec"), "no such thing as 'exec'"),
        (lambda p: p["steps"][0]["args"].append({"slot": 99}), "no slot 99"),
        (lambda p: p["steps"][0].update(free=[-1]), "a slot that is none"),
        (lambda p: p["steps"][0].update(after=[5]), "comes later"),
        (lambda p: p.pop("slots"), "damaged"),
        (lambda p: p.update(version=9), "version 9"),
        (lambda p: p.update(format="x"), "not a plan"),
    ],
)
def test_a_plan_is_checked_by_who_runs_it(exported, change, said):
    changed(exported, change)
    with pytest.raises(ReplayError, match=said):
        read_plan(exported)


def test_the_runner_needs_only_pytorch_and_the_standard_library(exported):
    """It reads and refuses a plan in a Python that has neither this package nor numpy in sight."""
    changed(exported, lambda p: p["steps"][0].update(op="os::system"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", exported.parent / "run.py"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "'os::system.Tensor' is not one that a replay calls" in done.stderr
    sources = exported.parent.joinpath("runner").glob("*.py")
    assert not [p.name for p in sources if "chakrakit" in Path(p).read_text()]


def test_a_folder_with_something_in_it_is_not_written_over(exported):
    with pytest.raises(ChakraError, match="not empty"):
        export(str(exported.parents[1] / "et_0.json"), exported.parent, ReplayOptions())
