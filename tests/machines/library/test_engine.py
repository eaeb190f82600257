"""All-reduce as serving engines do it: in one shot or two, within a node and up to a size."""

from __future__ import annotations

import math

import pytest

from chakrakit.machines.library import Span, engine_cost, engine_kernel
from chakrakit.machines.library.constants import EngineKernels
from support.spanned import spanned

MIB = 1 << 20


def test_engines_read_all_of_their_peers_in_one_shot_and_a_piece_in_two():
    library, span = spanned("dgx-h100", 8)
    engine = library.engine
    assert engine_kernel(engine, 128 << 10, span) == "one-shot"
    assert engine_kernel(engine, 1 * MIB, span) == "two-shot"
    one, two = (engine_cost(engine, s, span).transfer for s in (128 << 10, MIB))
    assert one == pytest.approx(7 * (128 << 10) / (engine.share * 450e9))
    assert two == pytest.approx(2 * 7 / 8 * MIB / (engine.share * 450e9))
    assert engine_cost(engine, 4096, span, eager=True).seconds == pytest.approx(20.5e-6)


ENGINE = EngineKernels(
    start_us=5, eager_us=20, peer_us=1, barrier_us=3, share=0.5, most=1 << 20, one_shot={4: 1000}
)


def within(members):
    return Span(members, 1, members, 2e9, 0.0, False)


def test_two_members_always_take_one_shot_and_more_by_size():
    assert engine_kernel(ENGINE, 1 << 20, within(2)) == "one-shot"
    assert engine_kernel(ENGINE, 999, within(3)) == "one-shot"
    assert engine_kernel(ENGINE, 1000, within(4)) == "two-shot"
    assert engine_kernel(ENGINE, 10, within(8)) == "two-shot"  # more members than the table has


def test_costs_are_starts_peers_and_what_flows():
    one = engine_cost(ENGINE, 500, within(4))
    assert one.fixed == pytest.approx((5 + 3 * 1) * 1e-6)
    assert one.transfer == pytest.approx(3 * 500 / 1e9)
    two = engine_cost(ENGINE, 4000, within(4))
    assert two.fixed == pytest.approx((5 + 3 * 1 + 3) * 1e-6)
    assert two.transfer == pytest.approx(2 * 3 / 4 * 4000 / 1e9)


def test_an_eager_launch_takes_its_time_and_beyond_its_reach_there_is_no_kernel():
    assert engine_cost(ENGINE, 500, within(4), eager=True).seconds == pytest.approx(20e-6)
    assert engine_cost(ENGINE, (1 << 20) + 1, within(4)).seconds == math.inf
    assert engine_cost(ENGINE, 500, Span(4, 2, 2, 2e9, 1e9, False)).seconds == math.inf
