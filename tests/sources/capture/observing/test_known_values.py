"""Fake tensors all of whose elements have one known value."""

from __future__ import annotations

import math

import pytest
import torch

from chakrakit.sources.capture.observing import KnownValues
from chakrakit.sources.capture.recording import Patches


@pytest.fixture
def known():
    return KnownValues(Patches())


def tensor(*shape):
    return torch.empty(shape or (2, 3))


def test_values_follow_through_arithmetic(known):
    zeros, ones, out = tensor(), tensor(), tensor()
    known.note("zeros", ((2, 3),), {}, zeros)
    known.note("ones_like", (zeros,), {}, ones)
    known.note("add", (ones, 3), {}, out)
    assert (known.get(zeros), known.get(ones), known.get(out)) == (0, 1, 4)
    known.note("gt", (out, ones), {}, zeros)
    assert known.get(zeros) is True


def test_a_sum_counts_how_many_elements_went_into_each(known):
    ones, sums = tensor(2, 3), tensor(2)
    known.note("ones", ((2, 3),), {}, ones)
    known.note("sum", (ones, [1]), {}, sums)
    assert known.get(sums) == 3


def test_in_place_forms_change_their_first_argument_and_views_keep_the_value(known):
    ones, view = tensor(), tensor(6)
    known.note("ones", ((2, 3),), {}, ones)
    known.note("mul_", (ones, 5), {}, ones)
    known.note("view", (ones, [6]), {}, view)
    assert (known.get(ones), known.get(view)) == (5, 5)


def test_what_is_not_known_makes_the_result_unknown(known):
    out = tensor()
    known.note("ones", ((2, 3),), {}, out)
    known.note("add", (out, tensor()), {}, out)
    assert known.get(out) is None
    known.note("isnan", (tensor(),), {}, out)
    assert known.get(out) is False  # nothing is ever not a number


def test_checks_for_finite_values_that_compare_with_themselves_or_infinity_pass(known):
    """`isfinite` is `(x == x) * (x.abs() != inf)` where it is dispatched; masks ask for minus infinity."""
    loss, same, finite, both = tensor(), tensor(), tensor(), tensor()
    known.note("eq", (loss, loss), {}, same)
    known.note("ne", (tensor(), math.inf), {}, finite)
    known.note("mul", (same, finite), {}, both)
    assert (known.get(same), known.get(finite), bool(known.get(both))) == (True, True, True)
    known.note("eq", (loss, tensor()), {}, same)
    known.note("eq", (loss, -math.inf), {}, finite)
    assert (known.get(same), known.get(finite)) == (None, None)


def test_every_part_of_a_split_has_the_value(known):
    ones, parts = tensor(), [tensor(3), tensor(3)]
    known.note("ones", ((2, 3),), {}, ones)
    known.note("unbind", (ones,), {}, parts)
    assert [known.get(p) for p in parts] == [1, 1]


def test_what_all_ranks_sent_all_receive(known):
    sent, received = tensor(4), tensor(8)
    known.note("full", ((4,), 6), {}, sent)
    known.note("_allgather_base_", (received, sent), {}, received)
    assert known.get(received) == 6


def test_counts_are_taken_to_be_balanced_and_that_is_said(known):
    counts = tensor(4)
    known.note("bincount", (tensor(12),), {}, counts)
    assert known.get(counts) == 3
    (warning,) = known.patches.warnings
    assert warning.endswith("counts are assumed to be balanced")
    known.note("bincount", (tensor(13),), {}, counts)
    assert known.get(counts) is None


def test_dividing_by_nothing_is_no_error(known):
    zeros, out = tensor(), tensor()
    known.note("zeros", ((2, 3),), {}, zeros)
    known.note("div", (zeros, zeros), {}, out)
    assert known.get(out) == 0
