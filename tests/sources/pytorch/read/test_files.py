"""Finding what to link: what each file is, and which belong together."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read import RankFiles, SourceFile, find_pairs, read_bytes
from chakrakit.sources.pytorch.read.files import _pair_up


def test_files_of_many_ranks_find_each_other() -> None:
    """By process; files that do not tell theirs, by what their names say."""
    order = np.random.default_rng(0).permutation(400).tolist()
    observers = [
        SourceFile(Path(f"a/et_{r}.json"), "observer", 100 + r if r < 390 else -1, -1, True)
        for r in range(400)
    ]
    kinetos = [
        SourceFile(Path(f"a/kineto_{r}.json"), "kineto", 100 + r if r < 390 else -1, r, True)
        for r in order
    ]
    found = RankFiles([])
    _pair_up(observers, kinetos, found)
    assert [(p.rank, str(p.observer), str(p.kineto)) for p in found.pairs] == [
        (r, f"a/et_{r}.json", f"a/kineto_{r}.json") for r in range(400)
    ]


def test_a_gzip_stream_cut_off_gives_what_it_holds(tmp_path):
    data = gzip.compress(b"x" * 100_000)
    (tmp_path / "a.json.gz").write_bytes(data[: len(data) - 20])
    assert 0 < len(read_bytes(tmp_path / "a.json.gz")) < 100_000


def test_a_directory_of_ranks(data):
    found = find_pairs([data / "gpt_fsdp_tp_4"])
    assert [p.rank for p in found.pairs] == [0, 1, 2, 3]
    for pair in found.pairs:
        assert [p.name for p in pair.paths] == [
            f"et_{pair.rank}.json.gz",
            f"kineto_{pair.rank}.json.gz",
        ]


def test_a_second_kineto_of_the_same_process_is_not_taken_for_the_pair(data):
    found = find_pairs([data / "gpt2_124m_b8_s1024"])
    assert [p.name for p in found.pairs[0].paths] == ["et.json.gz", "kineto.json.gz"]
    assert found.pairs[0].times == data / "gpt2_124m_b8_s1024" / "kineto_only.json.gz"
    passed_over = {path.rsplit("/", 1)[1]: why for path, why in found.ignored.items()}
    assert "neither" in passed_over["card.json"]


def test_two_recordings_that_say_the_same_rank_are_refused(recording, tmp_path):
    recording.op("a", 0, 1)
    recording.kineto = {"distributedInfo": {"rank": 3}}
    recording.write(tmp_path / "x")
    recording.write(tmp_path / "y")
    with pytest.raises(FormatError, match="both say rank 3"):
        find_pairs([tmp_path])
