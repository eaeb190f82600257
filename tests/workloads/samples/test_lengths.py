"""Documents of drawn lengths fill a sequence, and are not too many for a trace."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Lengths, Step
from chakrakit.workloads.samples import packed_documents


def test_documents_fill_their_sequence():
    step = Step(seq=4096, micro_batch=3, lengths=Lengths(distribution="lognormal", mean=100))
    assert [documents.sum() for documents in packed_documents(step, 0, 0)] == [4096] * 3


@pytest.mark.parametrize(
    "lengths", [Lengths(mean=1), Lengths(distribution="lognormal", mean=100, sigma=8)]
)
def test_more_documents_than_a_trace_could_hold_are_refused(lengths):
    with pytest.raises(ConfigError, match="more than 65,536 documents; use a larger mean, or a sm"):
        packed_documents(Step(seq=2**40, lengths=lengths), 0, 0)
