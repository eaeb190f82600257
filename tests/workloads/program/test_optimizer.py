"""Bytes of an optimizer for one parameter."""

import pytest

from chakrakit.workloads.description import Step
from chakrakit.workloads.program.step_end import optimizer_bytes, optimizer_state


@pytest.mark.parametrize(
    ("optimizer", "dtype", "state", "moved"),
    [
        ("adam", "bf16", 12, 4 + 24 + 2),  # master copy and two moments
        ("adam", "fp32", 8, 4 + 16 + 4),  # parameters are the master copy
        ("sgd", "bf16", 4, 4 + 8 + 2),
        ("none", "bf16", 0, 4 + 2),
    ],
)
def test_state_and_traffic(optimizer, dtype, state, moved):
    step = Step(seq=8, global_batch=1, optimizer=optimizer, dtype=dtype)
    assert (optimizer_state(step), optimizer_bytes(step)) == (state, moved)


def test_gradients_in_fewer_bits_move_less():
    step = Step(seq=8, global_batch=1, grad_dtype="bf16")
    assert optimizer_bytes(step) == 2 + 24 + 2
