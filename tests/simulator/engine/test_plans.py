"""Plans of transfers: numbered, bounded, and the bytes they put on links."""

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.library import LibraryCost
from chakrakit.simulator.collectives import algorithms as a
from chakrakit.simulator.engine import plans as room
from chakrakit.simulator.engine.plans import TransferPlans, link_bytes
from support.simulated import machine_of

GROUP = np.array([[0, 1, 2, 3]])


@pytest.fixture
def book():
    """Four devices in a ring at 10 GB/s and 1 µs."""
    return TransferPlans(machine_of("ring", 4))


def test_plans_are_numbered_one_for_each_copy(book):
    assert book.add_fixed(1e-6, 3) == 0
    assert book.add_messages(np.array([0, 1]), np.array([1, 0]), np.array([10.0, 20.0])) == 3
    assert book.add(a.ring_all_reduce(4), GROUP, 4e6) == 5
    assert book.count == 6


def test_all_groups_at_once_take_each_step_after_the_other(book):
    """Six rounds of 1 µs and of a quarter of 4 MB at 10 GB/s."""
    assert book.together(a.ring_all_reduce(4), GROUP, 4e6) == pytest.approx(6 * (1e-6 + 1e-4))
    back = np.array([[0, 1, 2, 3], [0, 1, 2, 3]])  # two groups share every link
    assert book.together(a.ring_all_reduce(4), back, 4e6) == pytest.approx(6 * (1e-6 + 2e-4))


def test_a_ring_puts_its_rounds_on_the_links_of_one_direction(book):
    """In an all-reduce of 4 MB each member sends six quarters to the next; a message adds its bytes."""
    book.add(a.ring_all_reduce(4), GROUP, 4e6)
    book.add_messages(np.array([1]), np.array([0]), np.array([500.0]))
    plans, _, routes = book.arrays()
    links = book.machine.links
    moved = link_bytes(plans, routes, np.array([1, 2]), len(links))
    by_ends = dict(
        zip(zip(links.src.tolist(), links.dst.tolist(), strict=True), moved, strict=True)
    )
    assert [by_ends[i, (i + 1) % 4] for i in range(4)] == [6e6] * 4
    assert by_ends[1, 0] == 1000  # the message ran twice
    assert moved.sum() == 24e6 + 1000


def test_a_library_s_cost_is_what_a_plan_takes_alone(book):
    """The links need 600 µs for the bytes; the library 900 µs, so each byte takes 1.5 times its time."""
    cost = LibraryCost(fixed=1e-6, latency=6e-6, transfer=9e-4, steps=6)
    book.add(a.ring_all_reduce(4), GROUP, 4e6, cost)
    plans, _, _ = book.arrays()
    assert plans["bytes"].sum() == pytest.approx(1.5 * 24e6)
    assert plans["payload"].sum() == pytest.approx(24e6)
    assert plans["repeat"].tolist() == [1, 1]


def test_too_many_transfers_are_refused_before_they_are_made(book, monkeypatch):
    monkeypatch.setattr(room, "MOST_TRANSFERS", 10)
    book.check_transfers(10)
    book.add(a.ring_all_reduce(4), GROUP, 4e6)  # two steps of four transfers
    with pytest.raises(ConfigError, match="more than 10 transfers; choose an algorithm with fewer"):
        book.check_transfers(3)


def test_what_takes_longer_than_the_clock_is_refused(book):
    with pytest.raises(ConfigError, match=r"takes longer than 100,000 s at 10,000,000,000 bytes/s"):
        book.add(a.ring_all_reduce(4), GROUP, 1.1e15)


def test_a_switch_that_does_not_reduce_is_refused(book):
    with pytest.raises(ConfigError, match="needs all members on one reducing switch"):
        book.add(a.switch_all_reduce(4), GROUP, 4e6)
