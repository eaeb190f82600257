"""`chakra simulate --astra`: the interface other programs rely on, and the Run it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import chakrakit
from chakrakit import CollectiveType, Run, TraceBuilder, TraceSet, write
from chakrakit.commands import group
from chakrakit.errors import ChakraError
from support.astra_cases import system, write_files
from support.commands import chakra as typed

MB = 1 << 20


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Eight ranks on a switch: 5 µs, a 1 MB all-reduce, and 7 µs beside it."""
    graph = TraceBuilder()
    first = graph.comp("a", duration_ns=5_000)
    graph.collective("sum", CollectiveType.ALL_REDUCE, MB, deps=[first])
    graph.comp("b", duration_ns=7_000, deps=[first])
    write(TraceSet([graph.build()] * 8), tmp_path / "w.N.et")
    return [str(tmp_path / "w"), "--astra", *write_files(tmp_path, system(boost_mode=1))]


def chakra(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["simulate", *arguments], catch_exceptions=False)


def test_json_has_cycles_and_exposed_cycles_of_every_rank(inputs: list[str]) -> None:
    out = chakra(*inputs, "--json")
    answer = json.loads(out.stdout)
    assert answer["ranks"] == [
        {"rank": rank, "cycles": 97_440, "exposed_cycles": 85_440} for rank in range(8)
    ]
    assert answer["classes"] == 1
    assert "`boost-mode` is ignored" in out.stderr


def test_not_folding_gives_the_same(inputs: list[str]) -> None:
    answer = json.loads(chakra(*inputs, "--json", "--no-fold").stdout)
    assert answer["ranks"] == json.loads(chakra(*inputs, "--json").stdout)["ranks"]
    assert answer["why_not_folded"] == "folding was switched off"


def test_its_own_summary_lines(inputs: list[str]) -> None:
    lines = chakra(*inputs, "--astra-log").stdout.splitlines()
    assert lines[:5] == [
        "sys[0] finished, 97440 cycles, exposed communication 85440 cycles.",
        "sys[0], Wall time: 97440",
        "sys[0], GPU time: 12000",
        "sys[0], Comm time: 92440",
        "sys[0], Total compute-communication overlap: 7000",
    ]
    assert sum("finished" in line for line in lines) == 8


def test_a_table_for_people(inputs: list[str]) -> None:
    out = chakra(*inputs).stdout
    assert "97,440" in out
    assert "8 ranks in 1 class" in out


def test_a_run_with_every_nodes_times_and_counters(inputs: list[str], tmp_path: Path) -> None:
    chakra(*inputs, "-o", str(tmp_path / "run"), "--json")
    run = chakrakit.read(tmp_path / "run")
    assert isinstance(run, Run)
    assert run.tick_ps == 1000
    assert run.body_count == 1
    for rank in range(8):
        assert run.start(rank).tolist() == [0, 5_000, 5_000]
        assert run.end(rank).tolist() == [5_000, 97_440, 12_000]
    assert run.counters["collectives"].to_pylist() == [
        {
            "collective": "all-reduce",
            "group": "0",
            "seq": 0,
            "comm_size": MB,
            "algorithm": "",
            "members": 8,
            "copies": 1,
            "first_ns": 5_000,
            "arrival_ns": 5_000,
            "end_ns": 97_440,
        }
    ]
    links = run.counters["links"].select(["rank", "link", "messages", "bytes", "busy_ns"])
    # 4 chunks of 14 messages of 32 KiB
    assert links.to_pylist()[3] == {
        "rank": 3,
        "link": "dimension 0",
        "messages": 56,
        "bytes": 56 * 32_768,
        "busy_ns": 0,
    }


@pytest.mark.parametrize("fold", [[], ["--no-fold"]])
def test_links_with_congestion(inputs: list[str], tmp_path: Path, fold: list[str]) -> None:
    chakra(*inputs, "--backend", "aware", "-o", str(tmp_path / "run"), "--json", *fold)
    run = chakrakit.read(tmp_path / "run")
    assert isinstance(run, Run)
    links = run.counters["links"].to_pylist()
    assert [(row["rank"], row["link"]) for row in links[:4]] == [
        (0, "down"),
        (0, "up"),
        (1, "down"),
        (1, "up"),
    ]
    assert {(row["messages"], row["bytes"], row["busy_ns"]) for row in links} == {
        (56, 56 * 32_768, 56 * 610)
    }


def test_a_workload_as_a_directory_with_its_groups(tmp_path: Path) -> None:
    def graph(group: str) -> TraceBuilder:
        built = TraceBuilder()
        built.collective("sum", CollectiveType.ALL_REDUCE, MB, pg_name=group)
        return built

    traces = TraceSet(
        [graph("1").build(), graph("2").build()],
        {rank: chakrakit.Binding(rank % 2) for rank in range(8)},
        chakrakit.Groups({"1": [0, 2, 4, 6], "2": [1, 3, 5, 7]}),
    )
    write(traces, tmp_path / "set")
    answer = json.loads(
        chakra(str(tmp_path / "set"), "--astra", *write_files(tmp_path, system()), "--json").stdout
    )
    assert {rank["cycles"] for rank in answer["ranks"]} == {55_000}


def test_errors_name_the_file_and_the_key(inputs: list[str], tmp_path: Path) -> None:
    write_files(tmp_path, system("spiral"))
    with pytest.raises(ChakraError, match=r"system\.json: `all-reduce-implementation`: unknown"):
        chakra(*inputs)


def test_a_machine_must_be_given() -> None:
    out = typed("simulate", "somewhere")
    assert out.exit_code == 2
    assert "--astra SYSTEM NETWORK MEMORY" in out.stderr
