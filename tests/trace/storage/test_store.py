"""Sets of traces live in files, under a prefix or in a directory, and come back as they were."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chakrakit import (
    Binding,
    Card,
    CollectiveType,
    Groups,
    Run,
    Times,
    Trace,
    TraceBuilder,
    TraceSet,
    read,
    write,
)
from chakrakit.errors import ChakraError, ConfigError, FormatError
from chakrakit.trace.files import claimed
from chakrakit.trace.sets.run import run_of
from chakrakit.trace.storage import directory


def program(name: str = "gemm", start_ns: int = 0) -> Trace:
    t = TraceBuilder()
    a = t.comp(name, duration_ns=1_500, start_ns=start_ns)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp")
    return t.build()


FOLDED = TraceSet(
    [program("a"), program("b")],
    {0: Binding(0), 1: Binding(0, {"tp": "5"}, {0: 1}, 2.0), 4: Binding(1)},
    Groups({"tp": [0, 4], "5": [1, 2]}),
    Card(name="job", tool="test", settings={"x": [1, {"y": None}]}),
)


def timed() -> Run:
    times = {
        r: Times(np.array([0, r % 2]), np.array([5, 9]), binding_row=np.array([-1, 0], np.int32))
        for r in FOLDED.ranks
    }
    counters = {"links": {"link": ["a"], "bytes": [7], "busy_ns": [1]}}
    return run_of(FOLDED, times, counters, tick_ps=1, epoch_ns=77)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


# --- finding ------------------------------------------------------------------------------------


def test_a_prefix_is_its_ranks_in_any_compression_with_its_groups(tmp_path: Path) -> None:
    for name in ("t.0.et", "t.2.et.gz", "t.10.et.zst", "t.11.parquet", "t.12.json", "other.0.et"):
        write(program(), tmp_path / name)
    (tmp_path / "t.json").write_text('{"tp": [0, 2, 3]}')
    traces = read(tmp_path / "t")
    assert traces.ranks == (0, 2, 10, 11, 12)
    assert traces.missing_ranks == (3,)
    assert all(trace.nodes.num_rows == 2 for _, trace in traces)
    assert read(tmp_path / "t.2.et.gz").ranks == (2,)
    assert dict(read(tmp_path / "t.2.et.gz").groups) == {"tp": (0, 2, 3)}


def test_a_json_trace_with_the_name_of_a_group_file_is_not_one(tmp_path: Path) -> None:
    write(program(), tmp_path / "t.0.et")
    write(program(), tmp_path / "t.json")
    assert len(read(tmp_path / "t").groups) == 0


def test_a_wrong_group_file_is_named(tmp_path: Path) -> None:
    write(program(), tmp_path / "t.0.et")
    for text in ('{"1": "0,1"}', '{"1": [0,', "[]", '{"1": [0, 0]}'):
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(ChakraError, match=r"t\.json"):
            read(tmp_path / "t")


def test_a_directory_holds_one_trace(tmp_path: Path) -> None:
    write(program(), tmp_path / "a.b.0.et")
    (tmp_path / "a.b.json").write_text('{"tp": [0, 1]}')
    (tmp_path / "host.0.json").write_text("{}")  # other formats count only if there is no .et
    assert read(tmp_path).ranks == (0,)
    assert read(tmp_path).missing_ranks == (1,)
    write(program(), tmp_path / "c.0.et")
    with pytest.raises(
        ChakraError, match=r"holds several traces \(a\.b, c\); give one as .*/PREFIX"
    ):
        read(tmp_path)
    assert read(tmp_path / "a.b").ranks == (0,)


def test_a_directory_with_a_lone_file_is_that_file(tmp_path: Path) -> None:
    write(program(), tmp_path / "x.et.gz")
    assert read(tmp_path).ranks == (0,)


def test_nothing_there_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(
        ChakraError, match=r"no such file or directory, and no nothing\.N\.et beside it"
    ):
        read(tmp_path / "nothing")
    with pytest.raises(ChakraError, match=r"no NAME\.N\.et files"):
        read(tmp_path)
    with pytest.raises(ChakraError, match="no such file"):
        read(tmp_path / "absent" / "t")


def test_a_link_is_followed_and_a_broken_one_is_an_error(tmp_path: Path) -> None:
    write(program(), tmp_path / "real.et")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "t.0.et").symlink_to(tmp_path / "real.et")
    assert len(read(tmp_path / "d").trace(0)) == 2
    (tmp_path / "d" / "t.1.et").symlink_to(tmp_path / "gone.et")
    with pytest.raises(ChakraError, match=r"t\.1\.et: cannot be read"):
        read(tmp_path / "d").trace(1)


def test_timed_files_are_a_run(tmp_path: Path) -> None:
    write(TraceSet([program(start_ns=1_001), program(start_ns=2_000)]), tmp_path / "t.N.et")
    run = read(tmp_path / "t")
    assert isinstance(run, Run)
    assert (run.start(0)[0], run.end(1)[0], run.tick_ps) == (1_001, 3_500, 1000)
    assert isinstance(read(tmp_path / "t.1.et"), Run)
    assert not isinstance(FOLDED, Run)


def test_a_stream_is_rank_0() -> None:
    assert read(io.BytesIO(b"\x00")).ranks == (0,)
    with pytest.raises(FormatError, match="empty"):
        read(io.BytesIO(b""))


# --- the directory form -------------------------------------------------------------------------


def same(one: TraceSet, other: TraceSet) -> None:
    assert one.bindings == other.bindings
    assert one.groups == other.groups
    for rank in one.ranks:
        assert (
            one.trace(rank).nodes.to_pylist()
            == other.trace(rank).nodes.select(one.trace(rank).nodes.column_names).to_pylist()
        )


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


def test_a_run_to_files_has_its_times_in_the_nodes(tmp_path: Path) -> None:
    write(timed(), tmp_path / "t.N.et")
    assert names(tmp_path) == ["t.0.et", "t.1.et", "t.4.et", "t.json"]
    run = run_of(
        TraceSet([program()]), {0: Times(np.array([1, 2_000_500]), np.array([9, 3_000_000]))}
    )
    write(run, tmp_path / "one.et")
    found = read(tmp_path / "one.et")
    assert isinstance(found, Run)
    assert (found.start(0).tolist(), found.end(0).tolist()) == ([1, 2_000_500], [9, 3_000_000])


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


@pytest.mark.parametrize("target", ["d", "w.N.et", "one.et", "b.chakra"])
def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path, target: str) -> None:
    """A temporary whose writer is gone has no lock; one that is being written stays."""
    traces = TraceSet([program()])
    name = target.removesuffix(".N.et") if ".N." in target else target
    (tmp_path / f".{name}.01234567.tmp").mkdir()
    (tmp_path / f".{name}.01234567.tmp" / "part").touch()
    (tmp_path / f".{name}.89abcdef.tmp").touch()
    (tmp_path / f".other.{name}.89abcdef.tmp").touch()
    with claimed(tmp_path / name) as living:
        write(traces, tmp_path / target)
        left = [n for n in names(tmp_path) if n.startswith(".")]
        assert left == sorted([living.name, f".other.{name}.89abcdef.tmp"])


def test_a_set_that_was_ready_is_put_in_place_by_the_next_reader(tmp_path: Path) -> None:
    """As after a kill between two of the renames: rank 0 is new, rank 1 is not yet there."""
    write(TraceSet([program(), program()]), tmp_path / "w.N.et")
    write(TraceSet([program("new"), program("new")]), tmp_path / "new.N.et")
    ready = tmp_path / ".w.set"
    ready.mkdir()
    (tmp_path / "new.0.et").rename(tmp_path / "w.0.et")
    (tmp_path / "new.1.et").rename(ready / "w.1.et")
    found = read(tmp_path / "w")
    assert [found.trace(rank).names[0].as_py() for rank in found.ranks] == ["new", "new"]
    assert names(tmp_path) == ["w.0.et", "w.1.et"]


def test_a_name_from_a_card_cannot_leave_the_directory(tmp_path: Path) -> None:
    for name in ("../../evil", "/abs", "", "...", "a/b", "x\0y"):
        write(TraceSet([program()], card=Card(name=name)), tmp_path / "d" / "e")
        assert len(read(tmp_path / "d" / "e").trace(0)) == 2
        assert names(tmp_path) == ["d"]
    bad = Run([program()], counters={"../x": pa.table({"a": [1]})})
    with pytest.raises(ChakraError, match="cannot be the name of a counter"):
        write(bad, tmp_path / "d" / "f")


def test_one_file_holds_one_rank(tmp_path: Path) -> None:
    with pytest.raises(ChakraError, match=r"one file cannot hold 3 ranks.*like out\.N\.et"):
        write(FOLDED, tmp_path / "out.et")
    with pytest.raises(ChakraError, match="no ranks to write"):
        write(TraceSet([]), tmp_path / "d")
    write(program(), tmp_path / "d")
    assert read(tmp_path / "d").ranks == (0,)


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
