"""Attention that does not meet every earlier key: pairs, keys read and keys kept, against plain counting."""

from __future__ import annotations

from fractions import Fraction

import pytest

from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Index,
    LatentAttention,
    StateSpace,
)
from chakrakit.workloads.layers import Reach, Stretch, kept


def area(reach: Reach, new: int, cached: int) -> float:
    """The keys that queries meet, summed over very thin slices of their places."""
    slices = 2000
    total = 0.0
    for i in range(slices):
        place = cached + new * (i + 0.5) / slices
        if reach.chunk:
            keys = place % reach.chunk
        else:
            keys = place / reach.stride
            keys = min(keys, reach.most) if reach.most else keys
        total += keys * new / slices
    return total


@pytest.mark.parametrize(
    "reach",
    [Reach(), Reach(64), Reach(64, sparse=True), Reach(16, 4), Reach(stride=8), Reach(chunk=50)],
    ids=["all", "window", "sparse", "compressed and sparse", "compressed", "chunks"],
)
@pytest.mark.parametrize(("new", "cached"), [(300, 0), (100, 37), (100, 400), (40, 20)])
def test_pairs_are_the_area_under_the_keys_that_queries_meet(reach, new, cached) -> None:
    counted = area(reach, new, cached)
    assert float(reach.pairs(Stretch(new, cached))) == pytest.approx(counted, rel=5e-3)


def test_a_single_query_meets_its_limit_and_no_more() -> None:
    assert Reach().pairs(Stretch(1, 99)) == 100
    assert Reach(64).pairs(Stretch(1, 99)) == 64
    assert Reach(64).pairs(Stretch(1, 9)) == 10
    assert Reach(16, 4).pairs(Stretch(1, 31)) == 8
    assert Reach(chunk=50).pairs(Stretch(1, 120)) == 21


def test_a_window_keeps_its_keys_and_a_sparse_layer_keeps_all() -> None:
    assert Reach(64).held(1000) == 64
    assert Reach(64).held(10) == 10
    assert Reach(64, sparse=True).held(1000) == 1000
    assert Reach(stride=128).held(1000) == Fraction(1000, 128)
    assert Reach(64, sparse=True).read(Stretch(1, 1000)) == 64


@pytest.mark.parametrize(
    ("mixer", "per_token", "fixed"),
    [
        (Attention(heads=8, kv_heads=2, head_dim=16), 2 * 2 * 16 * 2, 0),
        (Attention(heads=8, kv_heads=2, head_dim=16, value_dim=8), 2 * (16 + 8) * 2, 0),
        (Attention(heads=8, kv_heads=2, head_dim=16, window=32), 0, 32 * 2 * 2 * 16 * 2),
        (
            LatentAttention(
                heads=8, kv_lora=32, rope_dim=8, nope_dim=16, value_dim=16,
                index=Index(heads=4, dim=16, most=10),
            ),
            (32 + 8 + 16) * 2,
            0,
        ),
        (
            CompressedAttention(
                heads=8, head_dim=32, q_lora=16, window=64, ratio=4, groups=2, out_lora=8,
                index=Index(heads=4, dim=16, most=10),
            ),
            (32 + 16) * 2 / 4,
            64 * 32 * 2,
        ),
        (DeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=16), 0,
         4 * 8 * 16 * 4 + 3 * (2 * 2 * 8 + 4 * 16) * 2),
        (StateSpace(heads=4, head_dim=8, groups=2, state=16, state_dtype="fp32"), 0,
         4 * 8 * 16 * 4 + 3 * (4 * 8 + 2 * 2 * 16) * 2),
    ],
    ids=["grouped", "narrow values", "window", "sparse latent", "compressed", "delta", "state space"],
)  # fmt: skip
def test_bytes_that_a_layer_keeps(mixer, per_token, fixed) -> None:
    """In two bytes an element, states in four, and a convolution's last three inputs."""
    cache = kept(mixer, 1, 2.0, "bf16")
    assert cache.per_token == per_token
    assert cache.per_sequence == fixed
    assert cache.bytes(4096) == 4096 * per_token + fixed
