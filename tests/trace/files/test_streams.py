"""Bytes come from files, pipes and streams, however compressed; a file appears whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.codecs import read_trace
from chakrakit.trace.files import open_input, open_output, replacing

TEXT = os.urandom(300_000)


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    "packed", [TEXT, gzip.compress(TEXT), zstd(TEXT)], ids=["plain", "gz", "zst"]
)
def test_compression_is_told_by_content(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "anything"
    path.write_bytes(packed)
    for source in (path, str(path), io.BytesIO(packed)):
        with open_input(source) as stream:
            assert stream.read() == TEXT


def test_members_and_frames_one_after_another_are_one_stream() -> None:
    for pack in (gzip.compress, zstd):
        with open_input(io.BytesIO(pack(b"one ") + pack(b"two"))) as stream:
            assert stream.read() == b"one two"


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
def test_damage_is_a_format_error_that_names_the_file(tmp_path: Path, pack) -> None:
    good, path = pack(b"some text " * 50_000), tmp_path / "bad"
    for bad in (good[: len(good) // 2], good[:-1], good[:12] + b"\xff" * (len(good) - 12)):
        path.write_bytes(bad)
        with pytest.raises(FormatError, match=r"bad: the .*damaged"), open_input(path) as stream:
            stream.read()


def test_a_stream_somebody_gave_stays_open() -> None:
    given = io.BytesIO(b"abc")
    with open_input(given) as stream:
        assert stream.read() == b"abc"
    del stream
    assert not given.closed


def test_a_slow_pipe_is_recognised_like_a_file() -> None:
    """The first byte alone does not say what the rest is."""
    text = b'{"format": "chakra-trace", "version": 1, "metadata": null, "nodes": [\n\n]}\n'
    end, start = os.pipe()

    def trickle() -> None:
        for i in range(len(text)):
            os.write(start, text[i : i + 1])
        os.close(start)

    writer = threading.Thread(target=trickle)
    writer.start()
    with os.fdopen(end, "rb", buffering=0) as pipe:
        assert len(read_trace(pipe)) == 0
    writer.join()


def test_what_cannot_be_opened_says_so(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(ChakraError, match="cannot be read"), open_input(path):
            pass


@pytest.mark.parametrize("name", ["a", "a.gz", "a.zst", "new/deep/a"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    with open_output(tmp_path / name) as stream:
        stream.write(TEXT)
    with open_input(tmp_path / name) as stream:
        assert stream.read() == TEXT


@pytest.mark.parametrize("name", ["a", "a.gz", "a.zst", "new/deep/a"])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    with pytest.raises(ZeroDivisionError), open_output(tmp_path / name) as stream:
        stream.write(TEXT * (stream.write(TEXT) // 0))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text("half" * (temporary.write_text("some") // 0))
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ChakraError, match="cannot be written"),
        open_output(tmp_path / "file" / "a"),
    ):
        pass
    with pytest.raises(ChakraError, match="cannot be written"), open_output(tmp_path) as stream:
        stream.write(b"x")


def test_the_same_bytes_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with open_output(tmp_path / name) as stream:
            stream.write(b"same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_other_programs_read_our_compression(tmp_path: Path) -> None:
    with open_output(tmp_path / "a.gz") as stream:
        stream.write(TEXT)
    assert subprocess.run(["gzip", "-dc", tmp_path / "a.gz"], capture_output=True).stdout == TEXT


def test_a_pipe_and_a_device_are_written_to_and_stay(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with open_output(pipe) as stream:
        stream.write(TEXT)
    reader.join()
    assert got == [TEXT]
    assert pipe.is_fifo()
    with open_output("/dev/stderr" if os.geteuid() == 0 else os.devnull) as stream:
        stream.write(b"")
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for text in ("new", "newer"):
        with replacing(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with (
        pytest.raises(ChakraError, match="a link that leads to itself"),
        replacing(tmp_path / "loop"),
    ):
        pass
