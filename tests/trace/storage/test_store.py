"""Sets of traces live in files, under a prefix or in a directory, and come back as they were."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from chakrakit import Run, Times, Trace, TraceSet, read, write
from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.files import claimed
from chakrakit.trace.model import Metadata, NodeType
from chakrakit.trace.sets import CAPTURED, CAPTURED_VERSION, run_of
from support.stored_sets import FOLDED, names, program, timed

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


# --- writing ------------------------------------------------------------------------------------


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


def test_one_file_holds_one_rank(tmp_path: Path) -> None:
    with pytest.raises(ChakraError, match=r"one file cannot hold 3 ranks.*like out\.N\.et"):
        write(FOLDED, tmp_path / "out.et")
    with pytest.raises(ChakraError, match=r"like out\.N\.parquet$"):
        write(FOLDED, tmp_path / "out.parquet")
    with pytest.raises(ChakraError, match="no ranks to write"):
        write(TraceSet([]), tmp_path / "d")
    write(program(), tmp_path / "d")
    assert read(tmp_path / "d").ranks == (0,)


@pytest.mark.parametrize("name", ["t.0.et", "t.0.json", "t.0.parquet"])
def test_a_captured_program_is_known_by_its_metadata_where_no_card_is_kept(
    tmp_path: Path, name: str
) -> None:
    columns = {"name": ["aten::mm"], "type": [int(NodeType.COMP_NODE)], "num_ops": [8]}
    captured = Trace.from_columns(columns, metadata=Metadata.of(CAPTURED_VERSION))
    write(captured, tmp_path / name)
    assert read(tmp_path / name).card.tool == read(tmp_path / "t").card.tool == CAPTURED
    write(program(), tmp_path / name)
    assert read(tmp_path / "t").card.tool == ""
