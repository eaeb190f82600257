"""What goes wrong: seeded, checked, the same whatever else is simulated."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.simulator.engine import Disturbance, Fault
from chakrakit.simulator.engine.disturb import link_numbers

WORK = np.full(1000, 1_000_000)
DEVICE = np.ones(1000, np.bool_)


def test_a_straggler_is_slow_on_its_device_alone():
    slow = Disturbance(stragglers={3: 2.0})
    rows = np.array([True, False])
    assert slow.apply(3, np.array([10, 10]), rows).tolist() == [20, 10]
    assert slow.apply(4, np.array([10, 10]), rows).tolist() == [10, 10]


def test_jitter_is_drawn_by_seed_and_rank():
    noisy = Disturbance(jitter=0.1, seed=5)
    first = noisy.apply(0, WORK, DEVICE)
    assert first.tolist() == Disturbance(jitter=0.1, seed=5).apply(0, WORK, DEVICE).tolist()
    assert first.tolist() != noisy.apply(1, WORK, DEVICE).tolist()
    assert np.log(first / 1e6).std() == pytest.approx(0.1, rel=0.1)


def test_a_rank_that_is_numbered_anew_keeps_its_own_jitter():
    noisy = Disturbance(jitter=0.1, stragglers={7: 2.0}, faults=[Fault("device", 7, 0, 0.5)])
    mine = noisy.of([7])
    assert mine.apply(0, WORK, DEVICE).tolist() == noisy.apply(7, WORK, DEVICE).tolist()
    assert mine.faults[0].target == 0
    assert noisy.of([3]).faults == []


def test_ranks_that_are_equally_disturbed_have_equal_keys():
    slow = Disturbance(stragglers={3: 2.0, 5: 2.0})
    assert slow.key(3) == slow.key(5) != slow.key(4)
    assert len({Disturbance(jitter=0.1).key(r) for r in range(4)}) == 4


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Disturbance(jitter=-1), "jitter -1; give a share"),
        (lambda: Disturbance(seed=-1), "seed -1; give 0 or more"),
        (lambda: Disturbance(stragglers={0: 0}), "straggler 0: factor 0"),
        (lambda: Fault("device", 0, -1, 1), "is impossible"),
        (lambda: Fault("device", 0, 0, float("inf")), "is impossible"),
        (lambda: Disturbance(stragglers={9: 2.0}).check_ranks([0, 1]), "--straggler: no rank 9"),
        (
            lambda: Disturbance(faults=[Fault("device", 9, 0, 1)]).check_ranks([0]),
            "--fault: no rank 9",
        ),
        (
            lambda: Disturbance(stragglers={0: 1e5}).apply(0, np.array([10**15]), DEVICE[:1]),
            "an operation of rank 0 is 1e.08 s",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, problem):
    with pytest.raises(ConfigError, match=problem):
        make()


def test_a_link_is_both_its_ways():
    machine = ck.load_machine("dgx-h100:1")
    links = link_numbers(machine, (0, 8))
    ends = {(int(machine.links.src[i]), int(machine.links.dst[i])) for i in links}
    assert ends == {(0, 8), (8, 0)}
    with pytest.raises(ConfigError, match="no link between"):
        link_numbers(machine, (0, 1))
    with pytest.raises(ConfigError, match="no vertex 'nowhere'"):
        link_numbers(machine, ("nowhere", 0))
