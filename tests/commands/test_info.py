"""`chakra info` of every kind of path."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from chakrakit import read
from support.commands import chakra


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


def test_a_stream_in_python_is_what_the_command_reads(place: Path) -> None:
    assert len(read(io.BytesIO((place / "one.et").read_bytes())).trace(0)) == 2
