"""Energy, carbon, money and tokens on a run's card, true until a pass changes the run."""

from chakrakit import Card
from chakrakit.trace.sets import Footprint, footprint_of

FOOTPRINT = Footprint(energy_joules=5.0, energy_by_class={"gemm": 5.0}, price=0.25)


def test_a_card_carries_it():
    assert footprint_of(FOOTPRINT.put(Card())) == FOOTPRINT


def test_figures_are_what_is_known():
    assert FOOTPRINT.figures() == {"energy_joules": 5.0, "price": 0.25}


def test_a_pass_that_came_later_makes_it_void():
    card = FOOTPRINT.put(Card()).replace(passes=["edit{scale=2}"])
    assert footprint_of(card) is None


def test_what_is_no_footprint_is_none():
    assert footprint_of(Card()) is None
    assert footprint_of(Card(measured={"footprint": {"passes": 0, "price": "free"}})) is None
