"""A recording that most kinds of edges can be seen in."""

import pytest


@pytest.fixture
def two_kernels(recording):
    """Two operators that launch one kernel each; the second kernel waits for the first."""
    recording.op("a", 0, 20)
    recording.launch(2, start=10, dur=30, corr=1, name="ka")
    recording.op("b", 22, 20)
    recording.launch(25, start=41, dur=10, corr=2, name="kb")
    return recording
