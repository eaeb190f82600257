"""A recording to be written by hand, for all sources that read or continue PyTorch's."""

from __future__ import annotations

import pytest

from support.recording import Recording


@pytest.fixture
def recording() -> Recording:
    return Recording()
