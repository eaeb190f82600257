"""How much longer a node takes on another device: by rate where it computes, by bandwidth where it moves."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import Trace
from chakrakit.machines import parse_machine
from chakrakit.passes.recost import device_ratios


def device(bf16: float, bandwidth: float):
    text = {
        "device": {"peak": {"bf16": bf16, "fp8": 2 * bf16}, "memory_bandwidth": bandwidth},
        "network": [{"topology": "ring", "size": 2, "bandwidth": 1e9}],
    }
    return parse_machine(text, "m").devices[0]


FAST, SLOW = device(400e12, 3e12), device(100e12, 1e12)


def ratios(new: list[str] | None = None, **columns: list) -> list[float]:
    rows = len(columns["name"])
    trace = Trace.from_columns({"type": [4] * rows, "stream": [1] * rows, **columns})
    types = np.array(new or [""] * rows, object)
    return device_ratios(trace, types, FAST, SLOW).tolist()


def test_products_go_by_the_rate_and_copies_by_the_bandwidth():
    found = ratios(name=["gemm", "copy"], num_ops=[10**12, 0], tensor_size=[0, 10**9])
    assert found == pytest.approx([4, 3])


def test_what_is_bound_by_something_else_there_takes_the_longer_of_both():
    """On the fast device 10 ms of memory and 2.5 ms of products; on the slow one 30 and 10."""
    assert ratios(name=["both"], num_ops=[10**12], tensor_size=[30 * 10**9]) == pytest.approx([3])


def test_another_element_type_moves_other_bytes_at_another_rate():
    found = ratios(
        ["fp8", "fp8"],
        name=["gemm", "copy"],
        num_ops=[10**12, 0],
        tensor_size=[0, 10**9],
        dtype=["bf16", "bf16"],
    )
    assert found == pytest.approx([2, 1.5])


def test_a_kernel_of_which_nothing_is_known_goes_with_its_name_and_the_host_keeps_its_time():
    found = ratios(
        name=["k", "k", "unheard of", "op"],
        num_ops=[10**12, 0, 0, 10**12],
        is_cpu_op=[False, False, False, True],
    )
    assert found == pytest.approx([4, 4, 1, 1])
