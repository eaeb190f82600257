"""Files of a bundle: read like files of a folder once nothing about the zip can do harm."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chakrakit import read
from chakrakit.errors import FormatError
from chakrakit.trace.files import BundlePath, is_bundle, open_bundle
from chakrakit.trace.storage import check_bundle, extract_bundle


def test_a_bundle_is_walked_like_a_folder(bundle: Path) -> None:
    root = open_bundle(bundle)
    assert {"card.json", "groups.json", "times"} <= {p.name for p in root.iterdir()}
    times = root / "times"
    assert (times.is_dir(), times.is_file(), times.exists()) == (True, False, True)
    assert [p.inner for p in times.iterdir()] == ["times/0.parquet", "times/1.parquet"]
    assert [p.stem for p in times.walk()] == ["0", "1"]
    assert str(times / "0.parquet") == f"{bundle}/times/0.parquet"
    assert not (root / "nothing").exists()
    assert isinstance(root, BundlePath)


def test_a_file_in_it_is_a_file_of_its_own(bundle: Path) -> None:
    with (open_bundle(bundle) / "groups.json").open() as stream:
        assert stream.seek(-1, 2) > 0
        assert (len(stream.read()), stream.read()) == (1, b"")
        stream.seek(0)
        assert json.loads(stream.read()) == {"1": [0], "2": [1], "g": [2]}


def test_a_bundle_is_told_by_its_first_bytes(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "x.chakra").write_bytes(b"PK no")
    assert is_bundle(bundle)
    assert not is_bundle(tmp_path / "x.chakra")
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "nothing")


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
        (renamed("times/"), "times/", "not that of a plain file"),
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
