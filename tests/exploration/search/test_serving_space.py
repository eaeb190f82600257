"""The ways to serve a model on some devices."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.exploration.search.serving_search import ServingSpace, serving_space
from chakrakit.workloads.description import Decoder

MODEL = Decoder(name="m", layers=4, hidden=64, heads=12, kv_heads=4, vocab=100)


def space(**changes) -> ServingSpace:
    given = {"tp": [1, 2], "pp": [1], "ep": [1], "batch_tokens": [512], "batch_requests": [8]}
    return ServingSpace(**{**given, "pools": ["together", "apart"], **changes})


def test_every_layout_uses_all_devices() -> None:
    """Of three devices: three engines of one, or a prefill engine and decode engines beside it."""
    found = list(space().layouts(3))
    together = [(x.tp, x.replicas) for x in found if not x.prefill]
    apart = {(x.prefill, x.prefill_tp, x.decode, x.decode_tp) for x in found if x.prefill}
    assert together == [(1, 3)]
    assert apart == {(1, 1, 2, 1), (2, 1, 1, 1), (1, 1, 1, 2), (1, 2, 1, 1)}


def test_experts_spread_over_engines_that_step_together() -> None:
    (one,) = space(ep=[4], tp=[1], pools=["together"]).layouts(8)
    assert (one.dp, one.ep, one.replicas) == (4, 4, 2)


def test_every_layout_comes_with_every_pair_of_limits() -> None:
    made = space(tp=[1], pools=["together"], batch_tokens=[1, 2], batch_requests=[3, 4])
    found = [(c.batch_tokens, c.batch_requests, c.devices) for c in made.candidates(2)]
    assert found == [(1, 3, 2), (1, 4, 2), (2, 3, 2), (2, 4, 2)]


def test_degrees_divide_the_heads_and_stay_within_a_node() -> None:
    found = serving_space(MODEL, ck.load_machine("dgx-h100:2"), {"pp": [2], "ep": []})
    assert (found.tp, found.pp, found.ep) == ([1, 2, 4], [2], [1])
    mixed = Decoder(name="m", layers=4, hidden=64, heads=4, vocab=100, experts=4, top_k=2)
    assert serving_space(mixed, ck.load_machine("dgx-h100"), {}).ep == [1, 2, 4]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"micro_batch": [1]}, "--micro-batch is not for --serve, which chooses tp, pp, ep"),
        ({"pools": ["shared"]}, "--pools shared: give together, apart, or both"),
    ],
)
def test_axes_that_serving_does_not_have_are_refused(given, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        serving_space(MODEL, ck.load_machine("dgx-h100"), given)
