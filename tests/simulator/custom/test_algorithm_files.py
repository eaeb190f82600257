"""Algorithms of one's own by file, from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import chakra, data

MSCCL = """<algo name="pair" nchunksperloop="2" ngpus="2" coll="{coll}">
<gpu id="0"><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcoff="0" cnt="1" depid="-1"/><step s="1" type="r" srcoff="1" cnt="1" depid="-1"/>
</tb></gpu>
<gpu id="1"><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcoff="1" cnt="1" depid="-1"/><step s="1" type="r" srcoff="0" cnt="1" depid="-1"/>
</tb></gpu></algo>"""
"""Two GPUs swap their halves."""


def gathered(ranks: int) -> ck.TraceSet:
    t = ck.TraceBuilder()
    t.collective("gather", ck.CollectiveType.ALL_GATHER, 10**9)
    return ck.TraceSet([t.build()] * ranks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ck.write(gathered(2), tmp_path / "w")
    (tmp_path / "pair.xml").write_text(MSCCL.format(coll="allgather"))
    first, second = ck.TraceBuilder(), ck.TraceBuilder()
    first.send("mine", 0, 1, 500)
    first.recv("theirs", 1, 0, 500)
    second.send("mine", 1, 0, 500)
    second.recv("theirs", 0, 1, 500)
    ck.write(ck.TraceSet([first.build(), second.build()]), tmp_path / "swap")
    return tmp_path


def used(folder: Path, algorithm: object) -> tuple[str, float]:
    words = ("--machine", "dgx-h100", "--algorithm", f"all-gather={algorithm}")
    (row,) = data("simulate", folder / "w", *words)["collectives"]
    return row["algorithm"], row["mean_ns"]


def test_a_file_and_traces_of_the_same_messages_take_as_long(folder: Path) -> None:
    """Each member sends the other 1 GB at once, as the library's ring of two does, at the same cost."""
    name, from_xml = used(folder, folder / "pair.xml")
    assert name == "pair"
    assert from_xml == pytest.approx(used(folder, "ring")[1], rel=1e-6)
    name, from_traces = used(folder, f"{folder / 'swap'}@1000")
    assert (name, from_traces) == ("swap", from_xml)


def test_python_takes_the_path_or_what_was_read_and_the_card_names_it(folder: Path) -> None:
    path = folder / "pair.xml"
    by_path, by_steps = (
        ck.simulate(folder / "w", "dgx-h100", algorithms={"all-gather": algorithm})
        for algorithm in (path, ck.read_algorithm(path))
    )
    assert by_path.summary == by_steps.summary
    assert by_path.run().card.settings["algorithms"] == {"all-gather": str(path)}
    assert by_steps.run().card.settings["algorithms"] == {"all-gather": "pair"}


def test_an_algorithm_that_no_group_could_use_is_refused(folder: Path) -> None:
    words = ("--machine", "dgx-h100", "--algorithm", f"all-gather={folder / 'pair.xml'}")
    ck.write(gathered(4), folder / "four")
    done = chakra("simulate", folder / "four", *words)
    assert done.exit_code == 2
    assert "for 2 members, and no all-gather has that many; there are groups of 4" in done.stderr


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        ("all-gather={folder}/swap", "traces with the bytes that they move, as in"),
        ("all-reduce={folder}/pair.xml", "the file is an algorithm of 'allgather'"),
        ("all-gater={folder}/pair.xml", "did you mean 'all-gather'"),
        ("all-gather={folder}/absent.json", "cannot be read"),
        ("all-gather=rng", "no algorithm 'rng' for all-gather; did you mean 'ring'"),
    ],
)
def test_what_is_no_algorithm_is_refused(folder: Path, algorithm: str, problem: str) -> None:
    words = ("--machine", "dgx-h100", "--algorithm", algorithm.format(folder=folder))
    done = chakra("simulate", folder / "w", *words)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_a_plan_of_mscclpp_is_known_by_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"name": "p", "collective": "x", "gpus": []}))
    with pytest.raises(ck.FormatError, match="no chunks"):
        ck.read_algorithm(tmp_path / "plan.json")
