"""XLA's opcodes: the kind of work that each does, named as for PyTorch's operators."""

from __future__ import annotations

from chakrakit.operators.table import Work

_FREE = """
    parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id opt-barrier domain
    iota add-dependency
"""
_COPIES = """
    broadcast reshape transpose copy slice dynamic-slice dynamic-update-slice concatenate pad reverse
    convert bitcast-convert copy-start copy-done slice-start slice-done infeed outfeed rng-bit-generator sort
"""
_INDEXING = "gather scatter"
_CALLS = """
    custom-call fusion call while conditional reduce reduce-window map async-start async-done async-update
"""
HLO_COLLECTIVES = {
    "all-reduce": "ALL_REDUCE",
    "all-gather": "ALL_GATHER",
    "reduce-scatter": "REDUCE_SCATTER",
    "all-to-all": "ALL_TO_ALL",
    "ragged-all-to-all": "ALL_TO_ALL",
    "collective-broadcast": "BROADCAST",
    "collective-permute": "SEND",
}
"""Opcodes that communicate → collectives by Chakra's names; a permutation is messages."""

_WORK = {
    opcode: work
    for work, opcodes in (
        (Work.VIEW, _FREE),
        (Work.COPY, _COPIES),
        (Work.INDEX, _INDEXING),
        (Work.FUSED, _CALLS),
        (Work.MATRIX, "dot convolution"),
        (Work.COMMUNICATION, " ".join(HLO_COLLECTIVES)),
    )
    for opcode in opcodes.split()
}


def opcode_work(opcode: str) -> Work:
    """The kind of work of an opcode; one that is not listed computes element by element.

    A view does no work unless it is fused into something; an opcode that calls other computations (`FUSED`)
    does their work and nothing else.
    """
    return _WORK.get(opcode, Work.VECTOR)
