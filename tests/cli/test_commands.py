"""The commands: what they print, what they write, and how they refuse."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chakrakit import Binding, CollectiveType, Groups, Trace, TraceBuilder, TraceSet, read, write
from chakrakit.cli import COMMANDS
from chakrakit.cli.shared.schemas import RESULTS, result_type, schema_text
from support.commands import chakra
from support.paths import DOCS


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_500)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp")
    return t.build()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file, a prefix, a directory, and the same file in other forms."""
    write(program(), tmp_path / "one.et")
    for form in ("one.et.gz", "one.et.zst", "one.parquet", "two.json"):
        write(program(), tmp_path / form)
    write(TraceSet([program(), program()], groups=Groups({"tp": [0, 1]})), tmp_path / "t.N.et")
    write(TraceSet([program()], {0: Binding(0), 1: Binding(0)}), tmp_path / "d")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "ranks"),
    [
        ("one.et", 1),
        ("one.et.gz", 1),
        ("one.et.zst", 1),
        ("one.parquet", 1),
        ("two.json", 1),
        ("t", 2),
        ("t.1.et", 1),
        ("d", 2),
    ],
)
def test_info_of_every_kind_of_path(place: Path, path: str, ranks: int) -> None:
    done = chakra("info", place / path, "--json")
    assert done.exit_code == 0
    info = json.loads(done.stdout)
    assert (info["ranks"], info["nodes"], info["edges"]) == (
        ranks,
        2 * ranks,
        {"data": ranks, "ctrl": 0},
    )
    assert info["types"] == {"COMP_NODE": ranks, "COMM_COLL_NODE": ranks}


def test_info_for_people(place: Path) -> None:
    done = chakra("info", place / "t")
    assert done.stdout.splitlines()[:2] == [
        "2 ranks of 2, 1 group",
        "4 nodes, 2 data and 0 control edges",
    ]
    assert "ALL_REDUCE" in done.stdout
    assert "1 rank of 1, 0 groups" in chakra("info", place / "one.et").stdout


def test_info_of_standard_input(place: Path) -> None:
    for name in ("one.et", "one.et.gz", "one.parquet", "two.json"):
        done = chakra("info", "-", "--json", input=(place / name).read_bytes())
        assert json.loads(done.stdout)["nodes"] == 2, name


def test_convert_by_suffix(place: Path) -> None:
    for name in ("x.et", "x.et.gz", "x.et.zst", "x.json", "x.parquet"):
        assert chakra("convert", place / "one.et", place / name).exit_code == 0
        assert len(read(place / name).trace(0)) == 2
    assert chakra("convert", place / "t", place / "u.N.json").exit_code == 0
    assert read(place / "u").ranks == (0, 1)
    assert chakra("convert", place / "t", place / "e").exit_code == 0
    assert read(place / "e").ranks == (0, 1)


def test_convert_says_what_is_left_out(place: Path) -> None:
    done = chakra("convert", place / "one.et", place / "x.feeder.json")
    assert done.stderr.startswith("note: 1 values of 'duration_ns' have no place in")
    done = chakra("convert", place / "one.et", place / "x.feeder.json", "--json")
    assert json.loads(done.stdout) == {"left_out": {"duration_ns": 1}}


def test_convert_through_pipes(place: Path) -> None:
    done = chakra("convert", "-", "-", input=(place / "one.et.gz").read_bytes())
    assert done.stdout_bytes == (place / "one.et").read_bytes()


def test_query_and_its_limit(place: Path) -> None:
    pytest.importorskip("duckdb")
    sql = "SELECT rank, id, name FROM nodes ORDER BY rank, id"
    found = json.loads(chakra("query", place / "d", sql, "--json").stdout)
    assert found == {
        "columns": ["rank", "id", "name"],
        "types": ["int64", "uint64", found["types"][2]],
        "rows": [[0, 0, "gemm"], [0, 1, "sync"], [1, 0, "gemm"], [1, 1, "sync"]],
        "truncated": False,
    }
    short = chakra("query", place / "d", sql, "--limit", "1")
    assert short.stdout.splitlines()[-1] == "first 1 rows; --limit shows more"
    assert (
        json.loads(chakra("query", place / "d", sql, "--json", "--limit", "4").stdout)["truncated"]
        is False
    )
    bad = chakra("query", place / "d", "SELECT nothing FROM nodes")
    assert (bad.exit_code, len(bad.stderr.splitlines())) == (2, 1)
    assert "columns of nodes: rank" in bad.stderr


def test_export_one_rank(place: Path) -> None:
    done = chakra("export", place / "t", place / "g.dot", "--type", "COMM_COLL_NODE")
    assert done.exit_code == 0
    assert "note: rank 0 of 2; --rank chooses another" in done.stderr
    assert "1 nodes and 0 edges" in done.stderr
    done = chakra(
        "export", place / "t", place / "g.graphml", "--rank", "1", "--around", "0", "--json"
    )
    assert json.loads(done.stdout) == {"nodes": 2, "edges": 1, "dangling": 0, "folded": 0}
    assert chakra("export", place / "t", place / "g.dot", "--rank", "9").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = chakra("completion", shell)
    assert done.exit_code == 0
    assert "_CHAKRA_COMPLETE" in done.stdout


def test_the_shell_is_told_the_commands() -> None:
    environment = {
        **os.environ,
        "_CHAKRA_COMPLETE": "bash_complete",
        "COMP_WORDS": "chakra in",
        "COMP_CWORD": "1",
    }
    code = "from chakrakit.cli import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["plain,info"]


# --- refusing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["info", "absent"], "absent: no such file or directory, and no absent.N.et beside it"),
        (["info", "empty"], "no NAME.N.et files in this directory"),
        (["info", "broken.et"], "broken.et at byte"),
        (["info", "broken.et.gz"], "broken.et.gz: the gzip data is damaged"),
        (["info", "broken.json"], "broken.json: line 1"),
        (["info", "broken.parquet"], "broken.parquet: not a Parquet trace"),
        (["convert", "one.et", "x.txt/"], "x.txt"),
        (["convert", "one.et", "x.parquet.gz"], "compressed inside"),
        (["convert", "t", "x.et"], "one file cannot hold 2 ranks"),
        (["convert", "one.et", "one.et.gz/x.et"], "cannot be written: File exists"),
        (["export", "one.et", "x.pdf"], "use .graphml or .dot"),
        (["export", "one.et", "x.dot", "--name", "("], "not a regular expression"),
    ],
)
def test_errors_are_one_line_and_exit_2(
    place: Path, monkeypatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(place)
    (place / "empty").mkdir()
    (place / "x.txt").write_text("a file where a directory should be")
    (place / "broken.et").write_bytes(b"\x05\xff\xff\xff\xff\xff")
    (place / "broken.et.gz").write_bytes((place / "one.et.gz").read_bytes()[:-5])
    (place / "broken.json").write_text('{"version": "1", ')
    (place / "broken.parquet").write_bytes(b"PAR1" + b"x" * 40)
    done = chakra(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert problem in done.stderr


def test_empty_standard_input_is_an_error() -> None:
    done = chakra("info", "-", input=b"")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: <stdin>: the file is empty; a trace has at least a header\n",
    )


def test_debug_shows_the_traceback_wherever_it_stands(place: Path) -> None:
    for arguments in (["--debug", "info", place / "absent"], ["info", place / "absent", "--debug"]):
        done = chakra(*arguments)
        assert type(done.exception).__name__ == "ChakraError"


def test_a_mistyped_command_is_guessed() -> None:
    done = chakra("inof", "x")
    assert done.exit_code == 2
    assert "Did you mean 'info'?" in done.stderr


def test_help_lists_every_command_without_importing_them() -> None:
    code = (
        "import sys; from chakrakit.cli import group\n"
        "try: group.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'pyarrow', 'msgspec', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


# --- schemas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", sorted(RESULTS))
def test_schemas_are_current(command: str) -> None:
    path = DOCS / "schemas" / f"{command}.json"
    assert path.read_bytes() == schema_text(command), "run: python -m chakrakit.cli.shared.schemas"


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "t"],
        ["info", "d"],
        ["convert", "one.et", "x.feeder.json"],
        ["export", "one.et", "x.dot"],
        ["query", "d", "SELECT name, duration_ns / 7, [1], NULL, sum(id) OVER () FROM nodes"],
    ],
    ids=lambda a: a[0],
)
def test_what_is_printed_is_of_the_type_that_is_published(
    place: Path, monkeypatch, arguments: list
) -> None:
    if arguments[0] == "query":
        pytest.importorskip("duckdb")
    monkeypatch.chdir(place)
    done = chakra(*arguments, "--json")
    kind = result_type(arguments[0])
    found = msgspec.json.decode(done.stdout, type=kind, strict=True)
    assert set(json.loads(done.stdout)) == set(kind.__struct_fields__)
    assert found.__class__ is kind


def test_a_stream_in_python_is_what_the_command_reads(place: Path) -> None:
    assert len(read(io.BytesIO((place / "one.et").read_bytes())).trace(0)) == 2


def test_bundle_makes_checks_and_extracts(place: Path) -> None:
    out = place / "b.chakra"
    (place / "card.yaml").write_text("description: small\n")
    made = chakra(
        "bundle",
        place / "d",
        "-o",
        out,
        "--card",
        place / "card.yaml",
        "--field",
        "contact=me",
        "--add",
        place / "card.yaml",
        "--json",
    )
    assert made.exit_code == 0
    assert json.loads(made.stdout)["card"]["description"] == "small"
    checked = chakra("bundle", out, "--check", "--json")
    assert json.loads(checked.stdout) == json.loads(made.stdout)
    assert chakra("info", out).stdout == chakra("info", place / "d").stdout
    assert chakra("bundle", out, "--extract", place / "x").exit_code == 0
    assert (place / "x" / "files" / "card.yaml").exists()


def test_a_damaged_bundle_exits_1_and_names_the_file(place: Path) -> None:
    write(read(place / "d"), place / "b.chakra")
    data = (place / "b.chakra").read_bytes()
    (place / "b.chakra").write_bytes(data.replace(b"total_count", b"total_kount", 1))
    done = chakra("bundle", place / "b.chakra", "--check")
    assert done.exit_code == 1
    assert "card.json: is not what the bundle's list says" in done.stdout
    used = chakra("info", place / "b.chakra")
    assert used.exit_code == 2
    assert "card.json" in used.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--check", "--extract", "x"), ("--check", "--field", "a=1"), ("-o", "x", "--check")],
)
def test_bundle_wants_to_know_what_to_do(place: Path, arguments: tuple[str, ...]) -> None:
    assert chakra("bundle", place / "d", *arguments).exit_code == 2
