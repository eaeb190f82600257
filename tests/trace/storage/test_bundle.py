"""Bundles: what goes in comes out, and nothing that was changed on the way is believed."""

from __future__ import annotations

import contextlib
import json
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrakit import (
    Binding,
    Card,
    CollectiveType,
    Groups,
    Run,
    Times,
    TraceBuilder,
    TraceSet,
    read,
    write,
)
from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.files.bundle_files import open_bundle
from chakrakit.trace.query.description import describe
from chakrakit.trace.query.sql import query
from chakrakit.trace.storage.bundle import check_bundle, extract_bundle, write_bundle
from chakrakit.trace.validation.check import validate
from chakrakit.trace.validation.fixes import fix


def some_run() -> Run:
    """Three ranks of two programs; two ranks share one, with groups of their own."""
    bodies = []
    for size in (64, 128):
        t = TraceBuilder()
        a = t.comp("gemm", duration_ns=1_500, num_ops=10)
        t.collective("sync", CollectiveType.ALL_REDUCE, size, deps=[a], pg_name="g")
        bodies.append(t.build())
    bindings = {0: Binding(0, {"g": "1"}), 1: Binding(0, {"g": "2"}), 2: Binding(1)}
    times = [Times(np.array([0, 10]), np.array([10, 30 + i])) for i in range(2)]
    return Run(
        bodies,
        bindings,
        Groups({"1": [0], "2": [1], "g": [2]}),
        Card(name="two programs", tool="by hand"),
        times=times,
        timing={0: 0, 1: 1, 2: 0},
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "run.chakra"
    write(some_run(), path)
    return path


def same(a: TraceSet, b: TraceSet) -> bool:
    """Whether both have the same ranks, programs, groups and times."""
    assert isinstance(a, Run)
    assert isinstance(b, Run)
    return (
        a.bindings == b.bindings
        and a.groups == b.groups
        and all(a.trace(r).nodes.to_pylist() == b.trace(r).nodes.to_pylist() for r in a.ranks)
        and all(np.array_equal(a.start(r), b.start(r)) for r in a.ranks)
        and all(np.array_equal(a.end(r), b.end(r)) for r in a.ranks)
    )


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


def remade(bundle: Path, target: Path, change: Callable[[zipfile.ZipInfo, bytes], object]) -> Path:
    """The bundle with its entries changed, left out (None) or followed by others (a list)."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            found = change(info, old.read(info))
            entries = [(info, found)] if isinstance(found, bytes) else found or []
            for entry, data in entries:  # type: ignore[attr-defined]
                new.writestr(entry, data)
    return target


def link(info: zipfile.ZipInfo, data: bytes) -> object:
    if info.filename == "groups.json":
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return data


def renamed(name: str) -> Callable[[zipfile.ZipInfo, bytes], object]:
    def change(info: zipfile.ZipInfo, data: bytes) -> object:
        return (
            [(info, data), (zipfile.ZipInfo(name), b"x")]
            if info.filename == "groups.json"
            else data
        )

    return change


def without(name: str) -> Callable[[zipfile.ZipInfo, bytes], object]:
    return lambda info, data: None if info.filename == name else data


def deflated(info: zipfile.ZipInfo, data: bytes) -> object:
    if info.filename == "card.json":
        info.compress_type = zipfile.ZIP_DEFLATED
    return data


def longer(info: zipfile.ZipInfo, data: bytes) -> object:
    return data + b" " if info.filename == "card.json" else data


def other(info: zipfile.ZipInfo, data: bytes) -> object:
    return data.replace(b"by hand", b"by hook") if info.filename == "card.json" else data


def newer(info: zipfile.ZipInfo, data: bytes) -> object:
    return (
        data.replace(b'"version": 1', b'"version": 9', 1)
        if info.filename == "bundle.json"
        else data
    )


@pytest.mark.parametrize(
    ("change", "member", "text"),
    [
        (renamed("../../etc/x"), "../../etc/x", "lead out of the bundle"),
        (renamed("/x"), "/x", "lead out of the bundle"),
        (renamed("a\\..\\x"), "a\\..\\x", "lead out of the bundle"),
        (renamed("a/../x"), "a/../x", "lead out of the bundle"),
        (renamed("times/"), "times/", "no plain file's"),
        (renamed("more"), "more", "there and not listed"),
        (without("groups.json"), "groups.json", "listed and not there"),
        (link, "groups.json", "is a link"),
        (deflated, "card.json", "is compressed by zip"),
        (longer, "card.json", "bytes; "),
    ],
)
def test_what_could_do_harm_is_refused_by_name(
    bundle: Path,
    tmp_path: Path,
    change: Callable[[zipfile.ZipInfo, bytes], object],
    member: str,
    text: str,
) -> None:
    bad = remade(bundle, tmp_path / "bad.chakra", change)
    with pytest.raises(FormatError, match=text):
        read(bad)
    with pytest.raises(FormatError, match=text):
        extract_bundle(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    report = check_bundle(bad)
    assert not report.ok
    assert any(p.member == member and text in p.problem for p in report.problems)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (without("bundle.json"), "a zip without bundle.json"),
        (newer, "version 9; this chakrakit reads"),
        (other, "SHA-256"),
    ],
)
def test_a_bundle_that_is_none_is_told(
    bundle: Path, tmp_path: Path, change: Callable[[zipfile.ZipInfo, bytes], object], text: str
) -> None:
    bad = remade(bundle, tmp_path / "bad.chakra", change)
    with pytest.raises(FormatError, match=text):
        read(bad)


def test_a_file_twice_is_refused(bundle: Path, tmp_path: Path) -> None:
    def twice(info: zipfile.ZipInfo, data: bytes) -> object:
        return (
            [(info, data), (zipfile.ZipInfo(info.filename), data)]
            if info.filename == "card.json"
            else data
        )

    with pytest.warns(UserWarning, match="Duplicate"):
        bad = remade(bundle, tmp_path / "bad.chakra", twice)
    with pytest.raises(FormatError, match="twice"):
        read(bad)


def test_all_damage_is_listed_at_once(bundle: Path, tmp_path: Path) -> None:
    def change(info: zipfile.ZipInfo, data: bytes) -> object:
        return without("groups.json")(info, other(info, data))  # type: ignore[arg-type]

    report = check_bundle(remade(bundle, tmp_path / "bad.chakra", change))
    assert sorted(p.member for p in report.problems) == ["card.json", "groups.json"]


def test_overlapping_entries_cannot_unfold(bundle: Path, tmp_path: Path) -> None:
    """Central entries that all point at one large body would extract to more than the file has."""
    with zipfile.ZipFile(bundle) as old:
        name = max(old.infolist(), key=lambda i: i.file_size).filename
        data = old.read(name)
        listed = json.loads(old.read("bundle.json"))
    line = next(m for m in listed["members"] if m["name"] == name)
    listed["members"] = [{**line, "name": f"{i}.bin"} for i in range(20)]
    bad = tmp_path / "bad.chakra"
    with zipfile.ZipFile(bad, "w") as new:
        new.writestr("0.bin", data)
        first = new.filelist[0]
        for i in range(1, 20):
            copy = zipfile.ZipInfo(f"{i}.bin")
            for slot in ("CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                setattr(copy, slot, getattr(first, slot))
            new.filelist.append(copy)
        new.writestr("bundle.json", json.dumps(listed))
    with pytest.raises(FormatError, match="overlap"):
        open_bundle(bad)


def test_a_cut_off_bundle_is_told(bundle: Path, tmp_path: Path) -> None:
    data = bundle.read_bytes()
    for keep in (4, len(data) // 2, len(data) - 1):
        bad = tmp_path / "bad.chakra"
        bad.write_bytes(data[:keep])
        with pytest.raises(FormatError, match="cut off"):
            read(bad)


@settings(max_examples=150, deadline=None)
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
