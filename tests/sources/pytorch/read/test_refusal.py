"""A file that a reader refuses: one clear error that says what was meant."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read import read_kineto, read_observer


def test_something_else_is_one_clear_error():
    with pytest.raises(FormatError, match="not an execution trace"):
        read_observer(b"hello", "some.json")
    with pytest.raises(FormatError, match="not a Kineto trace"):
        read_kineto(b'{"a": ]')
