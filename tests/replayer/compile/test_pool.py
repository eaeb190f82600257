"""Tensors made from shapes alone: cold memory where it would be cold, strides without holes."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.memory import StoragePool, contiguous


def test_large_memory_is_used_again_only_when_it_is_cold():
    pool = StoragePool("cuda")
    pool.begin()
    first = pool.tensor("float32", [1 << 24])  # 64 MiB
    assert pool.tensor("float32", [1 << 24]).storage != first.storage  # the same operator's
    seen = []
    for _ in range(6):
        pool.begin()
        seen.append(pool.tensor("float32", [1 << 24]).storage)
    assert first.storage not in seen[:3]
    assert first.storage in seen
    pool.begin()
    small = pool.tensor("float32", [4])
    pool.begin()
    assert pool.tensor("float32", [4]).storage == small.storage


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3, 4), (12, 4, 1)), ((5,), (1,)), ((), ()), ((2, 0, 4), (4, 4, 1))]
)
def test_the_last_dimension_goes_fastest(shape, strides):
    assert contiguous(shape) == strides


def test_a_tensor_has_the_strides_it_is_given_and_a_storage_that_covers_them():
    pool = StoragePool("cpu")
    pool.begin()
    found = pool.tensor("float32", (2, 3), (8, 1))
    assert (found.shape, found.strides, found.device) == ((2, 3), (8, 1), "cpu")
    assert found.extent == (8 + 2 + 1) * 4
    assert pool.tensor("float32", (2, 3), (8,)).strides == (3, 1)  # strides of another number


def test_one_operator_is_not_given_one_storage_twice():
    pool = StoragePool("cpu")
    pool.begin()
    first, second = (pool.tensor("float32", (4,)) for _ in range(2))
    assert first.storage != second.storage
    pool.begin()
    assert pool.tensor("float32", (4,)).storage == first.storage
    assert pool.tensor("int64", (4,)).storage not in (first.storage, second.storage)
