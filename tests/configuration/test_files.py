"""Bytes and text of configuration files: bounded, and told where they are wrong."""

import pytest

from chakrakit.configuration import as_text, read_bounded, read_text_file
from chakrakit.errors import ConfigError


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_text_file(path) == "a: 1"


def test_a_file_may_be_as_large_as_the_limit_and_no_larger(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"x" * (2 << 20))
    assert len(read_bounded(path, 2 << 20)) == 2 << 20
    with pytest.raises(ConfigError, match=r"larger than 1 MiB, which is too large"):
        read_bounded(path, 1 << 20)


def test_what_is_no_text_is_told_with_line_and_byte():
    with pytest.raises(ConfigError, match=r"m\.yaml:2: not text in UTF-8 \(byte 3 is 0xff\)"):
        as_text(b"a\nb\xff", "m.yaml")


@pytest.mark.parametrize("name", ["missing.yaml", "a\0b"])
def test_a_path_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_bounded(f"{tmp_path}/{name}")
