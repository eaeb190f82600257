"""A trace's header: what is written into it is what it says."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.model import Metadata


def test_attributes_come_back_with_their_types():
    header = Metadata.of("1.2", ranks=8, scale=0.5, folded=True, name="run")
    assert header.version == "1.2"
    assert header.attributes == {"ranks": 8, "scale": 0.5, "folded": True, "name": "run"}


def test_a_file_without_a_header_says_nothing():
    assert Metadata(None).as_dict == {}
    assert Metadata(None).version == ""
    assert Metadata(b"").attributes == {}


def test_a_damaged_header_is_refused_with_its_file():
    with pytest.raises(FormatError, match=r"w\.0\.et.*the header is damaged"):
        Metadata.checked(b"\x0a\x05hi", "w.0.et")
