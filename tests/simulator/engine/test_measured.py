"""Communication as it was measured: transfers keep their time, and only waiting for peers is new."""

import pytest

from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.machines.device import MOST_NS
from chakrakit.simulator.engine import Disturbance, SimulationOptions, run
from chakrakit.simulator.engine.measured import recorded_starts
from chakrakit.simulator.engine.program import read_program
from support.simulated import machine_of, two


def reduced(works, ends):
    """Rank r works for works[r] ns, then reduces until ends[r]."""

    def build(t, rank):
        work = t.comp("work", start_ns=0, duration_ns=works[rank])
        lasts = ends[rank] - works[rank]
        kind = CollectiveType.ALL_REDUCE
        t.collective("sum", kind, 8, deps=[work], start_ns=works[rank], duration_ns=lasts)

    return two(build)


def ends(traces, **options):
    """The end of every row in ns, one list per rank."""
    chosen = SimulationOptions(communication="measured", fold=False, **options)
    out = run(traces, machine_of("ring", 2), chosen)
    return [(out.end[out.rows(c)] // 1000).tolist() for c in range(2)]


def test_a_transfer_lasts_from_the_last_arrival_to_the_first_end():
    assert ends(reduced((10, 40), (100, 100))) == [[10, 100], [40, 100]]


def test_who_comes_later_is_waited_for_and_the_transfer_takes_as_long():
    """Rank 1 takes 80 ns instead of 40; the 60 ns of transfer follow."""
    late = Disturbance(stragglers={1: 2.0})
    assert ends(reduced((10, 40), (100, 100)), disturbance=late) == [[10, 140], [80, 140]]


def test_who_ended_later_than_the_first_does_so_again():
    assert ends(reduced((10, 40), (100, 120))) == [[10, 100], [40, 120]]


def test_a_buffered_send_does_not_wait_for_its_receiver():
    def build(t, rank):
        if rank == 0:
            t.send("give", 0, 1, 8, start_ns=0, duration_ns=5)
        else:
            work = t.comp("work", start_ns=0, duration_ns=50)
            t.recv("take", 0, 1, 8, deps=[work], start_ns=50, duration_ns=10)

    assert ends(two(build)) == [[5], [50, 60]]


def test_without_times_there_is_nothing_to_keep():
    def build(t, rank):
        t.collective("sum", CollectiveType.ALL_REDUCE, 8)

    with pytest.raises(TraceError, match="communication has no measured times"):
        ends(two(build))


def programs(*starts):
    made = []
    for start in starts:
        t = TraceBuilder()
        t.comp("a", start_ns=start, duration_ns=1)
        t.comp("b", start_ns=start + 5, duration_ns=1)
        made.append(read_program(t.build()))
    return made


def test_ranks_begin_as_far_apart_as_they_were_recorded():
    assert recorded_starts(programs(1000, 1007)).tolist() == [0, 0, 7000, 7000]
    with pytest.raises(TraceError, match="apart, which is more than can be simulated"):
        recorded_starts(programs(0, MOST_NS + 1))


def test_the_measured_time_is_said_to_be_the_algorithm():
    options = SimulationOptions(communication="measured")
    out = run(TraceSet(reduced((10, 40), (100, 100)).bodies), machine_of("ring", 2), options)
    assert out.instances.algorithm == ["measured"]
