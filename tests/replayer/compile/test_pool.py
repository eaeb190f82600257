"""Tensors for operators that are made from shapes alone."""

from __future__ import annotations

from chakrakit.replayer.compile.pool import Pool, contiguous


def test_large_memory_is_used_again_only_when_it_is_cold():
    pool = Pool("cuda")
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


def test_a_tensor_is_contiguous_unless_strides_are_given():
    pool = Pool("cpu")
    assert pool.tensor("float32", [2, 3, 4]).strides == (12, 4, 1)
    assert pool.tensor("float32", [2, 3], [1, 2]).strides == (1, 2)
    assert contiguous([2, 0, 5]) == (5, 5, 1)
    assert contiguous([]) == ()


def test_an_operator_gets_no_storage_twice():
    pool = Pool("cpu")
    pool.begin()
    assert pool.tensor("float32", [4]).storage != pool.tensor("float32", [4]).storage
    pool.begin()
    first = pool.tensor("float32", [4])
    assert first.storage != pool.tensor("int64", [2]).storage  # as many bytes of another type
