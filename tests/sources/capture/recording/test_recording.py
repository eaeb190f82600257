"""What one rank did, as plain data that crosses from one process to another."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
import torch

from chakrakit.sources.capture.recording import (
    CapturedRank,
    CommCall,
    CreatedGroup,
    Op,
    Signature,
    in_pytorch,
)


def test_a_recording_arrives_as_it_was_sent():
    empty = [f for f in Signature.__struct_fields__ if f.startswith(("inputs_", "outputs_"))]
    signature = Signature(
        name="aten::mm",
        **dict.fromkeys(empty, ""),
        flops=128,
        vector_ops=0,
        moved=96,
        dtype="fp32",
        op_type="matmul",
        is_host=False,
    )
    sent = CapturedRank(
        rank=3,
        world=8,
        ops=[
            Op(signature=0, module=0, phase=1, step=2, reads=[4], writes=[5], comm=0, waits_for=0)
        ],
        signatures=[signature],
        comms=[CommCall(0, "0", 8, 8, "float32", in_splits=[1, 2])],
        groups=[CreatedGroup("0", (0, 1), "world")],
        mail={"objects 0": b"\x80"},
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=CapturedRank) == sent


def test_two_recordings_share_no_lists():
    one, other = CapturedRank(rank=0, world=2), CapturedRank(rank=1, world=2)
    one.ops.append(Op(signature=0, module=0, phase=0, step=0, reads=[], writes=[]))
    assert other.ops == []


@pytest.mark.parametrize(
    ("file", "answer"),
    [
        (f"{Path(torch.__file__).parent}/distributed/fsdp.py", True),
        (f"{Path(torch.__file__).parent}/optim/adam.py", False),
        ("/opt/torch/.venv/lib/python3.12/site-packages/transformers/masking_utils.py", False),
    ],
)
def test_code_is_pytorchs_by_the_folder_it_is_installed_in(file, answer):
    """Not by a name in its path: an environment may be called torch, and its packages ask as scripts do."""
    asked = eval(compile("ask(sys._getframe())", file, "eval"), {"ask": in_pytorch, "sys": sys})
    assert asked is answer
