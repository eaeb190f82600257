"""Failure processes: how often, which nodes, and ages that start anew with a fresh node."""

from __future__ import annotations

from random import Random

import pytest

from chakrakit.campaigns.failures import Exponential, FailureProcess, Fixed


def process(**fields):
    return FailureProcess(**{"name": "node", "between": Fixed(10.0), "units": 2, **fields})


def test_all_units_together_fail_as_often_as_they_are_many():
    assert process(units=8).rate == 0.8


@pytest.mark.parametrize(
    ("fields", "unit", "nodes"),
    [
        ({}, 1, [1]),
        ({"units_per_node": 8}, 17, [2]),  # the second of the third node's eight
        ({"nodes_per_unit": 4}, 2, [8, 9, 10, 11]),  # the third rack of four
    ],
)
def test_a_unit_takes_its_nodes_with_it(fields, unit, nodes):
    assert list(process(**fields).slots(unit, Random(0))) == nodes


def test_a_failure_of_the_job_hits_any_one_node():
    hits = {process(units=1, anywhere=4).slots(0, Random(seed))[0] for seed in range(40)}
    assert hits == {0, 1, 2, 3}


def test_units_that_are_replaced_are_as_good_as_new():
    """Two nodes fail every 10 s; the first is renewed again at 15 s, so that the second is due next."""
    source = process().events("0")
    assert source.due == 10
    assert list(source.take()) == [0]
    assert (source.due, list(source.take())) == (10, [1])
    assert source.due == 20
    source.renew(0, 15)
    assert (source.due, list(source.take())) == (20, [1])
    assert (source.due, list(source.take())) == (25, [0])


def test_racks_do_not_become_new_with_one_of_their_nodes():
    source = process(nodes_per_unit=4).events("0")
    source.renew(0, 9)
    assert source.due == 10


def test_without_memory_the_age_of_a_node_does_not_matter():
    source = process(between=Exponential(10.0)).events("0")
    due = source.due
    source.renew(0, due / 2)
    assert source.due == due
    source.take()
    assert source.due > due
    assert process(between=Exponential(10.0)).events("0").due == due
