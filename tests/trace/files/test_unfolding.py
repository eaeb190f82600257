"""Compressed files that unfold into far more than a trace could: refused while they are read."""

import gzip
import io

import pyarrow as pa
import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.files import open_input
from support.bounded import memory_below


def packed(kind, chunks):
    if kind == "gzip":
        data = io.BytesIO()
        with gzip.GzipFile(fileobj=data, mode="wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
        return data.getvalue()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for chunk in chunks:
            stream.write(chunk)
    return sink.getvalue().to_pybytes()


def test_zeros_without_end(tmp_path):
    """Kilobytes that stand for 64 MiB; of larger ones no more is unfolded either."""
    file = tmp_path / "x.0.et.zst"
    file.write_bytes(packed("zstd", [bytes(1 << 20)] * 64))
    assert file.stat().st_size < 10_000
    told = pytest.raises(FormatError, match="unfolds into more than 1,000 times its size")
    with memory_below(60e6), open_input(file) as stream, told:
        stream.read()


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_is_a_few_hundred_times_smaller_is_read(kind, tmp_path):
    lines = [b"node %d of a regular trace\n" % (i % 7) for i in range(50_000)]
    file = tmp_path / "x"
    file.write_bytes(packed(kind, lines))
    with open_input(file) as stream:
        assert stream.read() == b"".join(lines)
