"""Bundles: what goes in comes out, and nothing that was changed on the way is believed."""

from __future__ import annotations

import contextlib
import json
import pickle
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit as ck
from chakrakit import TraceSet, read, write
from chakrakit.errors import ChakraError, ConfigError, FormatError
from chakrakit.trace.query import describe, query
from chakrakit.trace.storage import check_bundle, extract_bundle, write_bundle
from chakrakit.trace.validation import fix, validate
from support.bundled import same, some_run
from support.examples import examples


def test_what_goes_in_comes_out(bundle: Path) -> None:
    found = read(bundle)
    assert same(found, some_run())
    assert found.body_count == 2
    assert found.card.name == "two programs"


def test_the_same_input_gives_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    write(some_run(), tmp_path / "again.chakra")
    write(read(bundle), tmp_path / "from.chakra")
    assert bundle.read_bytes() == (tmp_path / "again.chakra").read_bytes()
    assert bundle.read_bytes() == (tmp_path / "from.chakra").read_bytes()


def test_any_zip_tool_reads_it(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        listed = json.loads(archive.read("bundle.json"))["members"]
    assert sorted(names) == sorted([*(m["name"] for m in listed), "bundle.json"])
    assert "two_programs.0.et.zst" in names


def test_every_reader_opens_it(bundle: Path, tmp_path: Path) -> None:
    assert describe(bundle).nodes == 6
    assert validate(bundle).nodes == 4
    counted = query(bundle, "SELECT rank, count(*) AS n FROM nodes GROUP BY rank ORDER BY rank")
    assert counted.column("n").to_pylist() == [2, 2, 2]
    fix(bundle, tmp_path / "fixed.chakra")
    assert same(read(tmp_path / "fixed.chakra"), some_run())


def test_bodies_can_be_read_in_another_process(bundle: Path) -> None:
    body = pickle.loads(pickle.dumps(read(bundle).bodies[0]))
    assert not callable(some_run().bodies[0])
    assert len(body()) == 2
    assert len(pickle.dumps(read(bundle).bodies[0])) < 1_000


def test_extracting_gives_a_directory_of_the_same(bundle: Path, tmp_path: Path) -> None:
    extract_bundle(bundle, tmp_path / "out")
    assert same(read(tmp_path / "out"), some_run())
    extract_bundle(
        bundle, tmp_path / "out"
    )  # all there already: as if the first had been interrupted
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ChakraError, match="exists already"):
        extract_bundle(bundle, tmp_path / "out")


def test_files_travel_with_it(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("torchrun train.py\n")
    write_bundle(some_run(), tmp_path / "b.chakra", files=[tmp_path / "run.sh"])
    extract_bundle(tmp_path / "b.chakra", tmp_path / "out")
    assert (tmp_path / "out" / "files" / "run.sh").read_text() == "torchrun train.py\n"
    assert same(read(tmp_path / "b.chakra"), some_run())
    for files, text in (
        ([tmp_path / "none"], "no such file"),
        ([tmp_path / "run.sh"] * 2, "already added"),
    ):
        with pytest.raises(ChakraError, match=text):
            write_bundle(some_run(), tmp_path / "c.chakra", files=files)
    assert not (tmp_path / "c.chakra").exists()


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(ChakraError, match="no ranks"):
        write(TraceSet([]), tmp_path / "x.chakra")
    assert list(tmp_path.iterdir()) == []


# --- bundles that are not what they should be -----------------------------------------------------


@examples(150)
@given(place=st.integers(min_value=0), value=st.integers(min_value=1, max_value=255))
def test_a_changed_byte_is_noticed_or_means_nothing(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    data = bytearray(bundle.read_bytes())
    data[place % len(data)] ^= value
    bad = tmp_path_factory.getbasetemp() / "flipped.chakra"
    bad.write_bytes(data)
    with contextlib.suppress(ChakraError):  # told
        assert not check_bundle(bad).ok or same(read(bad), some_run())


def test_a_zip_through_a_pipe_is_told(bundle: Path) -> None:
    with bundle.open("rb") as stream, pytest.raises(FormatError, match="opened by its own path"):
        read(stream)


def test_what_is_no_bundle_cannot_be_checked(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    with pytest.raises(FormatError, match="not a bundle"):
        check_bundle(tmp_path / "x")
    with pytest.raises(ChakraError, match="no such file"):
        check_bundle(tmp_path / "y")


@pytest.mark.parametrize("card", [5, {"workload": 5}, {"collection": {"passes": "compact"}}])
def test_a_set_that_carries_what_is_no_card_is_told_before_it_is_packed(card, tmp_path) -> None:
    builder = ck.TraceBuilder()
    builder.comp("a", duration_ns=1)
    traces = ck.TraceSet([builder.build()], card=ck.Card(extra={"workload": card}))
    ck.write(traces, tmp_path / "set")
    assert ck.validate(tmp_path / "set").counts == {"workload-card": 1}
    with pytest.raises(ConfigError, match="carries"):
        ck.write(traces, tmp_path / "set.chakra")
