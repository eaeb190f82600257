"""What the feeder reads from: files, pipes, compression, damage."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.errors import ChakraError, FormatError, TraceError
from chakrakit.trace.storage import Feeder
from support.examples import examples
from support.feeder_traces import attribute, field, frame, node, trace, varint


def small_frames() -> list[bytes]:
    one = field(1, 300) + field(2, b"name") + attribute("comm_size", 9, 2**40)
    return [frame(field(1, b"1.0")), frame(one), node(2, [300], [300]), node(3, [2])]


def small() -> bytes:
    return b"".join(small_frames())


def test_truncation_at_every_byte() -> None:
    whole, ends = small(), set(np.cumsum([len(each) for each in small_frames()]).tolist())
    for cut in range(len(whole) + 1):
        if cut in ends:
            list(Feeder(io.BytesIO(whole[:cut])))
        else:
            with pytest.raises(FormatError, match=r"(node #\d|the metadata): "):
                list(Feeder(io.BytesIO(whole[:cut])))


@examples(300)
@given(st.integers(0, len(small()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(place: int, value: int) -> None:
    damaged = bytearray(small())
    damaged[place] = value
    try:
        for n in Feeder(io.BytesIO(bytes(damaged))):
            assert n.attrs is not None
    except ChakraError:
        pass


@examples(300)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        for n in Feeder(io.BytesIO(data)):
            assert n.attrs is not None
    except ChakraError:
        pass


@pytest.mark.parametrize("length", [2**31, 2**63, 2**64 - 1])
def test_absurd_length(length: int) -> None:
    with pytest.raises(
        FormatError, match=r"at byte 12: node #2: length \d+ is more than the 2 GiB"
    ):
        list(Feeder(trace(node(1), varint(length) + b"abc")))


def test_false_length_costs_no_memory() -> None:
    with pytest.raises(FormatError, match="2147483647 bytes, but the input ends after 3"):
        list(Feeder(trace(varint(2**31 - 1) + b"abc")))


@pytest.mark.slow
def test_name_of_fifty_megabytes() -> None:
    name = "x" * 50_000_000
    feeder = Feeder(trace(node(1, name=name), node(2, [1])))
    assert [len(n.name) for n in feeder] == [50_000_000, 0]


def test_file_gz_zst_are_told_by_content(tmp_path: Path) -> None:
    plain = small()
    for data in (plain, gzip.compress(plain), pa.compress(plain, codec="zstd", asbytes=True)):
        path = tmp_path / "trace"
        path.write_bytes(data)
        with Feeder(path) as feeder:
            assert [n.id for n in feeder] == [300, 2, 3]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_damaged_compression(codec: str, tmp_path: Path) -> None:
    body = b"\x00" + b"".join(node(i, name=str(i * i)) for i in range(20_000))
    zstd = pa.compress(body, codec="zstd", asbytes=True)
    packed = gzip.compress(body) if codec == "gzip" else zstd
    path = tmp_path / "trace.et"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match=r"trace\.et"):
        list(Feeder(path))


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"tr\xffce.et")
    path.write_bytes(small())
    assert [n.id for n in Feeder(path)] == [300, 2, 3]


def test_error_carries_the_path(tmp_path: Path) -> None:
    path = tmp_path / "short.et"
    path.write_bytes(small()[:-1])
    with pytest.raises(FormatError, match=r"short\.et at byte \d+: node #3") as caught:
        list(Feeder(path))
    assert caught.value.path == str(path)
    with pytest.raises(FileNotFoundError):
        Feeder(tmp_path / "none.et")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipe(pack: object, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(pack(small()),))  # type: ignore[operator]
    writer.start()
    with Feeder(path) as feeder:
        assert [n.id for n in feeder] == [300, 2, 3]
    writer.join()


def test_standard_input() -> None:
    code = "from chakrakit.trace.storage.feeder import Feeder; print([n.id for n in Feeder('-')])"
    run = subprocess.run(
        [sys.executable, "-c", code], input=small(), capture_output=True, check=True
    )
    assert run.stdout.decode().strip() == "[300, 2, 3]"


def test_a_closed_feeder_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.et"
    path.write_bytes(small())
    with Feeder(path) as feeder:
        assert feeder.take_batch(1)["id"].tolist() == [300]
    feeder.done(300)
    with pytest.raises(TraceError, match="the feeder is closed"):
        feeder.take()


def test_an_error_of_the_source_passes_through_and_may_be_overcome() -> None:
    class Shaky(io.BytesIO):
        fails = 2

        def read1(self, size: int | None = -1, /) -> bytes:
            self.fails -= 1
            if self.fails == 0:
                raise OSError("busy")
            return super().read1(10)

    feeder = Feeder(Shaky(small()))
    with pytest.raises(OSError, match="busy"):
        feeder.take_batch(9)
    assert feeder.in_flight == 0
    assert [n.id for n in feeder] == [300, 2, 3]


def test_reading_from_within_the_reader_is_refused() -> None:
    class Curious(io.BytesIO):
        feeder: Feeder | None = None

        def read1(self, size: int | None = -1, /) -> bytes:
            if self.feeder:
                for call in (self.feeder.take, self.feeder.close):
                    with pytest.raises(TraceError, match="is reading already"):
                        call()
            return super().read1(5)

    source = Curious(small())
    source.feeder = feeder = Feeder(source)
    assert [n.id for n in feeder] == [300, 2, 3]
    source.feeder = None


def test_another_kind_of_file_is_not_taken_for_a_trace() -> None:
    text = b'{"schema": "1.1.1", "nodes": [' + b'{"id": 1, "name": "a"},' * 20
    with pytest.raises(FormatError, match=r"is this a Chakra \.et file\?"):
        Feeder(io.BytesIO(text))


@pytest.mark.parametrize("options", [{"window": 0}, {"window": -1}, {"missing": "perhaps"}])
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(TraceError, match="must be"):
        Feeder(trace(), **options)  # type: ignore[arg-type]
