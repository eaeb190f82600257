"""Two recordings side by side."""

import numpy as np
import pytest

from chakrakit.sources.pytorch.joining import align


def codes(text):
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abcdef", "abXcdef", [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6)]),
        ("abc", "xyz", []),
        ("", "abc", []),
        ("aaXbbb", "aaYbbb", [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)]),
    ],
)
def test_entries_that_are_the_same(left, right, pairs):
    found = align(codes(left), codes(right))
    assert list(zip(*(f.tolist() for f in found), strict=True)) == pairs


def test_long_equal_stretches_are_taken_whole():
    long = np.arange(5000, dtype=np.int32)
    left, right = align(long, np.r_[long[:3000], -1, long[3000:]].astype(np.int32))
    assert len(left) == 5000
    assert right[-1] == 5000


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("abcdef", "abcdef", "abcdef"),
        ("abcdef", "abXYcdef", "abcdef"),
        ("abXcdef", "abYYcdef", "abcdef"),
        ("abcdef", "", ""),
        ("abcxyz", "xyz", "xyz"),
    ],
)
def test_sequences_are_aligned_around_what_differs(left, right, pairs):
    a, b = align(codes(left), codes(right))
    assert "".join(left[i] for i in a) == pairs == "".join(right[i] for i in b)


def test_aligning_long_sequences_with_a_hole():
    whole = np.random.default_rng(0).integers(0, 50, 20_000).astype(np.int32)
    cut = np.delete(whole, np.r_[5000:5100])
    a, b = align(whole, cut)
    assert len(a) > 19_800
    assert (whole[a] == cut[b]).all()
