"""The files behind a path, and the groups beside them."""

from pathlib import Path

import pytest

from chakrakit.errors import ChakraError
from chakrakit.trace.storage import is_stream, rank_files
from chakrakit.trace.storage.places import (
    body_files,
    groups_beside,
    named_rank,
    prefix_of,
    ranked_files,
)


@pytest.mark.parametrize(
    ("name", "prefix", "rank"),
    [
        ("llama.7.et", "llama", 7),
        ("llama.v2.12.et.gz", "llama.v2", 12),
        ("x.3.feeder.json", "x", 3),
        ("trace.et", "trace", None),
        ("a.1234567890.et", "a", None),  # no job has so many ranks
    ],
)
def test_a_name_says_its_prefix_and_rank(name, prefix, rank):
    assert (prefix_of(Path(name)), named_rank(Path(name))) == (prefix, rank)


def touch(folder, *names):
    for name in names:
        (folder / name).touch()


def test_a_prefix_stands_for_its_ranks_in_order(tmp_path):
    touch(tmp_path, "w.10.et", "w.2.et", "w.2.json", "other.0.et", "w.txt")
    found = ranked_files(tmp_path, "w")
    assert {rank: file.name for rank, file in found.items()} == {2: "w.2.et", 10: "w.10.et"}
    assert list(rank_files(tmp_path / "w")) == [2, 10]


def test_a_directory_of_one_prefix_is_that_prefix(tmp_path):
    touch(tmp_path, "w.0.parquet", "w.1.parquet")
    assert sorted(body_files(tmp_path)) == [0, 1]


def test_a_lone_file_is_rank_zero(tmp_path):
    touch(tmp_path, "trace.et.zst", "notes.md")
    assert body_files(tmp_path)[0].name == "trace.et.zst"


def test_several_prefixes_have_to_be_told_apart(tmp_path):
    touch(tmp_path, "a.0.et", "b.0.et")
    with pytest.raises(ChakraError, match=r"holds several traces \(a, b\); give one as"):
        body_files(tmp_path)


def test_a_directory_of_recordings_says_what_to_do(tmp_path):
    (tmp_path / "kineto.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(ChakraError, match="is a recording of PyTorch: link it first, chakra link"):
        body_files(tmp_path)


def test_so_does_a_directory_of_ranks_that_hold_recordings(tmp_path):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "kineto.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(ChakraError, match=f"link it first, chakra link {tmp_path} -o RUN"):
        body_files(tmp_path)


def test_a_directory_of_several_sets_names_them(tmp_path):
    for job in ("b", "a"):
        (tmp_path / job).mkdir()
        (tmp_path / job / f"{job}.0.et").write_bytes(b"")
    with pytest.raises(ChakraError, match=f"a, b in it hold traces: give one, as {tmp_path}/a"):
        body_files(tmp_path)


def test_nothing_there_is_refused_with_what_could_be(tmp_path):
    with pytest.raises(ChakraError, match=r"no such file or directory, and no w\.N\.et beside it"):
        rank_files(tmp_path / "w")


def test_a_name_that_is_misspelled_is_known(tmp_path):
    for file in ("ethernet.0.et", "ethernet.1.et", "notes.txt"):
        (tmp_path / file).write_bytes(b"")
    with pytest.raises(ChakraError, match=r"beside it; did you mean 'ethernet'\? Or give a file"):
        rank_files(tmp_path / "ethernt")
    with pytest.raises(ChakraError, match=r"beside it; give a file"):
        rank_files(tmp_path / "absent" / "ethernt")


def test_groups_are_beside_unless_that_file_is_a_trace(tmp_path):
    (tmp_path / "groups.json").write_text('{"1": [0, 1]}')
    assert dict(groups_beside(tmp_path, "w")) == {"1": (0, 1)}
    (tmp_path / "w.json").write_text('{"2": [0]}')
    assert dict(groups_beside(tmp_path, "w")) == {"2": (0,)}
    (tmp_path / "w.json").write_text('{"version": "x"}')
    assert dict(groups_beside(tmp_path, "w")) == {"1": (0, 1)}


def test_standard_input_is_a_stream(tmp_path):
    assert is_stream("-")
    assert not is_stream(tmp_path)
