"""Memory from the tensors that operators name: a storage lives from its maker to its last user."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit import Trace
from chakrakit.trace.memory import Allocations
from chakrakit.trace.memory.storages import from_storages

MIB = 2**20


def tensor(storage: int, bytes: int, device: str = "cuda:0", offset: int = 0) -> list[object]:
    """A tensor of one-byte elements, numbered as its storage."""
    return [storage, storage, offset, bytes, 1, device]


def account(*rows: tuple[list, list], **columns: list) -> Allocations | None:
    """Operators one after another, each with the tensors that it takes and gives out."""
    start = np.arange(len(rows)) * 10
    trace = Trace.from_columns(
        {
            "name": [f"op{i}" for i in range(len(rows))],
            "type": [4] * len(rows),
            "inputs_values": [json.dumps(taken) for taken, _ in rows],
            "outputs_values": [json.dumps(given) for _, given in rows],
            **columns,
        }
    )
    return from_storages(trace, start, start + 10)


def test_a_storage_is_held_from_its_maker_to_the_end_of_its_last_user() -> None:
    a, b = tensor(1, MIB), tensor(2, 2 * MIB)
    found = account(([], [a]), ([a], [b]), ([], []), ([b], []))
    assert found is not None
    changes = zip(found.row.tolist(), found.at_end.tolist(), found.bytes.tolist(), strict=True)
    assert list(changes) == [
        (0, False, MIB),
        (1, False, 2 * MIB),
        (1, True, -MIB),
        (3, True, -2 * MIB),
    ]
    assert (found.peak_bytes, found.tensors) == (3 * MIB, 2)


def test_what_is_taken_before_it_was_given_out_was_there_and_stays() -> None:
    weight = tensor(9, MIB)
    found = account(([weight], []), ([weight], []))
    assert found is not None
    assert (found.row.tolist(), found.bytes.tolist()) == ([-1], [MIB])
    assert found.by_kind() == {"parameters": MIB}
    assert found.labels == ("(before the window)",)


def test_a_number_that_is_given_away_again_is_another_storage() -> None:
    found = account(([], [tensor(1, 512)]), ([tensor(1, 512)], []), ([], [tensor(1, 1024)]))
    assert found is not None
    assert found.bytes.tolist() == [512, -512, 1024, -1024]


@pytest.mark.parametrize(
    ("shape", "stride", "bytes"),
    [
        ([4, 8], [8, 1], 512),  # 32 elements, rounded up
        ([1024, 4], [0, 1], 512),  # expanded: four elements in memory
        ([2, 4], [4096, 1], 4608),  # a slice of rows: 4100 bytes to the last element
    ],
)
def test_a_view_counts_from_the_storages_begin_to_its_last_element(
    shape: list[int], stride: list[int], bytes: int
) -> None:
    elements = shape[0] * shape[1]
    found = account(
        ([], [tensor(1, elements)]),
        outputs_shapes=[json.dumps([shape])],
        outputs_strides=[json.dumps([stride])],
    )
    assert found is not None
    assert found.peak_bytes == bytes


def test_tensors_of_the_host_count_only_where_there_is_no_device() -> None:
    host, device = tensor(1, MIB, "cpu"), tensor(2, 512)
    both, alone = account(([], [host, device])), account(([], [host]))
    assert both is not None
    assert alone is not None
    assert (both.peak_bytes, alone.peak_bytes) == (512, MIB)


def test_the_phase_of_the_maker_says_what_a_storage_is_for() -> None:
    found = account(([], [tensor(1, 512)]), ([], [tensor(2, 1024)]), phase=["forward", "backward"])
    assert found is not None
    kinds = {k: sum(found.bytes[(found.kind == k) & (found.bytes > 0)].tolist()) for k in (1, 3)}
    assert kinds == {1: 1024, 3: 512}  # gradients, activations


@pytest.mark.parametrize(
    "text", ["not json", "5", "[[1, 2]]", '[[1, 2, 0, -4, 1, "cuda:0"]]', "[" * 5000]
)
def test_values_that_are_no_tensors_are_no_memory(text: str) -> None:
    trace = Trace.from_columns({"name": ["a"], "outputs_values": [text]})
    assert from_storages(trace, np.array([0]), np.array([1])) is None
