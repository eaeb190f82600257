"""XLA's opcodes do the kinds of work that operators do."""

import pytest

from chakrakit.operators import HLO_COLLECTIVES, Work, opcode_work
from chakrakit.trace.model import CollectiveType


@pytest.mark.parametrize(
    ("opcode", "work"),
    [
        ("dot", Work.MATRIX),
        ("convolution", Work.MATRIX),
        ("add", Work.VECTOR),
        ("some-new-opcode", Work.VECTOR),
        ("get-tuple-element", Work.VIEW),
        ("dynamic-slice", Work.COPY),
        ("gather", Work.INDEX),
        ("fusion", Work.FUSED),
        ("all-reduce", Work.COMMUNICATION),
    ],
)
def test_kinds(opcode, work):
    assert opcode_work(opcode) is work


def test_collectives_have_chakras_names():
    assert set(HLO_COLLECTIVES.values()) <= {k.name for k in CollectiveType} | {"SEND"}
