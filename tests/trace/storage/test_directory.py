"""The directory form: a folded set stays folded, a run keeps its times, and damage is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit import Card, Run, TraceSet, read, write
from chakrakit.errors import ChakraError, ConfigError, FormatError
from chakrakit.trace.storage import directory
from support.stored_sets import FOLDED, names, program, same, timed


def test_a_folded_set_stays_folded(tmp_path: Path) -> None:
    write(FOLDED, tmp_path / "d")
    assert names(tmp_path / "d") == [
        "card.json",
        "groups.json",
        "job.0.et",
        "job.4.et",
        "ranks.parquet",
    ]
    found = read(tmp_path / "d")
    same(found, FOLDED)
    assert found.card == FOLDED.card.replace(partial=[2])


def test_a_plain_set_needs_no_table(tmp_path: Path) -> None:
    write(TraceSet([program(), program("b")]), tmp_path / "d")
    assert not (tmp_path / "d" / "ranks.parquet").exists()
    assert read(tmp_path / "d").ranks == (0, 1)


def test_a_run_comes_back_with_times_counters_and_classes(tmp_path: Path) -> None:
    write(timed(), tmp_path / "d")
    found = read(tmp_path / "d")
    assert isinstance(found, Run)
    same(found, timed())
    assert (found.tick_ps, found.epoch_ns, found.timing) == (1, 77, timed().timing)
    assert found.times_of(1).binding_row.tolist() == [-1, 0]
    assert found.times_of(1).binding_rank is None
    assert found.end(4).tolist() == [5, 9]
    assert found.counters["links"].select(["link", "bytes"]).to_pylist() == [
        {"link": "a", "bytes": 7}
    ]


def test_our_directory_is_replaced_whole(tmp_path: Path) -> None:
    write(timed(), tmp_path / "d")
    write(TraceSet([program()], card=Card(name="new")), tmp_path / "d")
    assert names(tmp_path / "d") == ["card.json", "groups.json", "new.0.et"]
    write(read(tmp_path / "d"), tmp_path / "d")  # over itself
    assert len(read(tmp_path / "d").trace(0)) == 2
    assert names(tmp_path) == ["d"]


def test_other_peoples_things_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write(program(), tmp_path / "d" / "mine.0.et")
    with pytest.raises(ChakraError, match=r"other things in it \(mine\.0\.et\)"):
        write(FOLDED, tmp_path / "d")
    write(FOLDED, tmp_path / "ours")
    (tmp_path / "ours" / "notes.txt").write_text("keep")
    with pytest.raises(ChakraError, match=r"other things in it \(notes\.txt\)"):
        write(FOLDED, tmp_path / "ours")
    (tmp_path / "file").write_text("")
    with pytest.raises(ChakraError, match="not a directory"):
        write(FOLDED, tmp_path / "file")


def test_through_a_link_the_directory_it_points_to_is_replaced(tmp_path: Path) -> None:
    write(FOLDED, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(TraceSet([program()]), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "real").ranks == (0,)


def failing(_rank: int) -> None:
    raise ZeroDivisionError


def test_a_failure_leaves_the_old_directory_and_nothing_else(tmp_path: Path) -> None:
    write(FOLDED, tmp_path / "d")
    before = names(tmp_path / "d")
    with pytest.raises(ZeroDivisionError):
        write(TraceSet([program()]), tmp_path / "d", progress=failing)
    with pytest.raises(ZeroDivisionError):
        write(TraceSet([program()]), tmp_path / "new" / "deep", progress=failing)
    assert names(tmp_path / "d") == before
    assert names(tmp_path) == ["d"]


def test_a_rename_that_fails_puts_the_old_directory_back(tmp_path: Path, monkeypatch) -> None:
    write(FOLDED, tmp_path / "d")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if (
            self.name.startswith(".d.")
            and Path(target).name == "d"
            and (self / "new.0.et").exists()
        ):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr("chakrakit.trace.files.temporary._exchange", lambda _a, _b: False)
    with pytest.raises(ChakraError, match="cannot be written: Input/output error"):
        write(TraceSet([program()], card=Card(name="new")), tmp_path / "d")
    assert (tmp_path / "d" / "job.0.et").exists()
    assert names(tmp_path) == ["d"]


def test_a_name_from_a_card_cannot_leave_the_directory(tmp_path: Path) -> None:
    for name in ("../../evil", "/abs", "", "...", "a/b", "x\0y"):
        write(TraceSet([program()], card=Card(name=name)), tmp_path / "d" / "e")
        assert len(read(tmp_path / "d" / "e").trace(0)) == 2
        assert names(tmp_path) == ["d"]
    bad = Run([program()], counters={"../x": pa.table({"a": [1]})})
    with pytest.raises(ChakraError, match="cannot be the name of a counter"):
        write(bad, tmp_path / "d" / "f")


RANKS = {
    "rank": [0],
    "body": [0],
    "groups": pa.array([[]], directory._RANKS.field("groups").type),
    "peers": pa.array([[]], directory._RANKS.field("peers").type),
    "scale": [1.0],
    "timing": [0],
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rank": None}, "has no column 'rank'"),
        ({"rank": ["x"]}, "not the Parquet table"),
        ({"rank": pa.array([None], pa.int64())}, "nulls in column 'rank'"),
        ({"rank": [-1]}, "rank -1"),
        ({"body": [9]}, "runs body 9, which is not there"),
        ({"scale": [float("nan")]}, "a scale of nan"),
        ({"groups": [5]}, "not the Parquet table"),
        ({"timing": [3]}, "timing class 3 of 1"),
    ],
)
def test_a_wrong_table_of_ranks_is_an_error_that_names_it(
    tmp_path: Path, change: dict, problem: str
) -> None:
    write(timed().select_ranks([0]), tmp_path / "d")
    table = {k: v for k, v in {**RANKS, **change}.items() if v is not None}
    pq.write_table(pa.table(table), tmp_path / "d" / "ranks.parquet")
    for extra in (tmp_path / "d" / "times").glob("[1-9]*.parquet"):
        extra.unlink()
    with pytest.raises(FormatError, match=problem) as error:
        read(tmp_path / "d")
    assert str(tmp_path / "d") in str(error.value)


def test_a_rank_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    write(FOLDED, tmp_path / "d")
    table = pq.read_table(tmp_path / "d" / "ranks.parquet")
    pq.write_table(pa.concat_tables([table, table]), tmp_path / "d" / "ranks.parquet")
    with pytest.raises(FormatError, match="rank 0 is there twice"):
        read(tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "table", "problem"),
    [
        ("0", {"start": [1, 2]}, "has no column 'end'"),
        ("0", {"start": ["a", "b"], "end": [1, 2]}, "not the Parquet table"),
        ("0", {"start": [1, None], "end": [1, 2]}, "nulls in column 'start'"),
        ("0", {"start": [1], "end": [2]}, "2 nodes and times for 1"),
        ("x", {"start": [1], "end": [2]}, "should hold 0.parquet"),
        ("5", {"start": [1], "end": [2]}, "should hold 0.parquet"),
    ],
)
def test_wrong_times_are_an_error(tmp_path: Path, name: str, table: dict, problem: str) -> None:
    write(timed(), tmp_path / "d")
    pq.write_table(pa.table(table), tmp_path / "d" / "times" / f"{name}.parquet")
    with pytest.raises(ChakraError, match=problem):
        read(tmp_path / "d").start(0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"name": 5}', '{"tick_ps": 0}', '{"epoch_ns": "x"}', "[" * 10_000, "\udcff"],
)
def test_a_wrong_card_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    write(FOLDED, tmp_path / "d")
    (tmp_path / "d" / "card.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=r"card\.json(:1)?: not a card"):
        read(tmp_path / "d")


def test_a_damaged_table_is_an_error(tmp_path: Path) -> None:
    write(timed(), tmp_path / "d")
    for name in ("ranks.parquet", "times/0.parquet", "counters/links.parquet"):
        write(timed(), tmp_path / "d")
        (tmp_path / "d" / name).write_bytes(b"PAR1 no")
        with pytest.raises(FormatError, match="not the Parquet table"):
            read(tmp_path / "d")
