"""`chakra validate` as it is called: what it prints, and what it exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit.commands import group
from support.paths import DATA

FEEDER_TRACE = str(DATA / "et" / "feeder_tests_chakra.0.et.gz")


def run(*args, **options):
    return CliRunner().invoke(group, ["validate", *map(str, args)], **options)


@pytest.fixture
def clean(tmp_path):
    builder = ck.TraceBuilder()
    builder.comp("b", deps=[builder.comp("a")])
    ck.write(builder.build(), tmp_path / "clean.0.et")
    return tmp_path / "clean.0.et"


def test_a_clean_trace_exits_0(clean):
    result = run(clean)
    assert (result.exit_code, result.output) == (
        0,
        "ok: 2 nodes of 1 rank, 0 errors, 0 warnings, 0 notes\n",
    )


def test_errors_exit_1_and_are_counted_in_text_and_json():
    result = run(FEEDER_TRACE)
    assert result.exit_code == 1
    assert "error dangling-control: 1,277" in result.output
    said = "ctrl_deps names id 3, which no node has; --fix drops the reference"
    assert f"  rank 0 node 216 'aten::flatten_dense_tensors(0)': {said}\n" in result.output
    result = run(FEEDER_TRACE, "--json")
    found = json.loads(result.output)
    assert result.exit_code == 1
    assert found["counts"]["dangling-control"] == 1277
    assert found["ok"] is False
    assert {"code", "severity", "rank", "node", "name", "message"} <= set(found["findings"][0])


def test_a_repaired_trace_exits_0(tmp_path):
    result = run(FEEDER_TRACE, "--fix", "-o", tmp_path / "out.0.et")
    assert result.exit_code == 0
    assert "1,277 dropped control references to nodes that do not exist" in result.output


def test_a_damaged_file_exits_1_with_the_place(tmp_path, clean):
    (tmp_path / "cut.et").write_bytes(clean.read_bytes()[:-3])
    result = run(tmp_path / "cut.et", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["findings"][0]["offset"] is not None


def test_stdin_is_a_path(clean):
    assert run("-", input=clean.read_bytes()).exit_code == 0


@pytest.mark.parametrize(
    "args", [["nosuch"], [FEEDER_TRACE, "--fix"], [FEEDER_TRACE, "-o", "x.et"]]
)
def test_what_cannot_be_done_exits_2(args):
    from chakrakit.commands import main

    with pytest.raises(SystemExit) as stopped:
        main(["validate", *args])
    assert stopped.value.code == 2


def test_only_files_can_be_repaired(traces: ck.TraceSet, tmp_path: Path) -> None:
    assert ck.validate(traces).ok
    with pytest.raises(ck.ConfigError, match="give the path of the traces"):
        ck.validate(traces, output=tmp_path / "fixed")
