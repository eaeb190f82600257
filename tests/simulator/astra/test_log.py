"""ASTRA-sim's own summary lines."""

from __future__ import annotations

from chakrakit.simulator.astra import log_lines
from chakrakit.simulator.astra.log import times_by_kind
from support.astra_cases import case_of, comp, network, on_all, run, system

TWO = network(("Switch", 2))


def test_ranks_are_told_in_the_order_in_which_they_finish() -> None:
    """5 µs of GPU beside 3 µs of CPU on rank 0, 4 µs of GPU on rank 1."""
    ranks = [[comp(0, 5), comp(1, 3, is_cpu_op=True)], [comp(0, 4)]]
    assert list(log_lines(run(case_of(ranks, TWO)))) == [
        "sys[1] finished, 4000 cycles, exposed communication 0 cycles.",
        "sys[1], Wall time: 4000",
        "sys[1], GPU time: 4000",
        "sys[0] finished, 5000 cycles, exposed communication 0 cycles.",
        "sys[0], Wall time: 5000",
        "sys[0], GPU time: 5000",
        "sys[0], CPU time: 3000",
    ]


def test_ranks_that_never_finish_are_left_out() -> None:
    cycle = [comp(0, 5), comp(1, 5, [2]), comp(2, 5, [1])]
    ranks = [[comp(0, 5)], [{**comp(0, 5), "type": "INVALID_NODE", "dur_us": 0}, comp(1, 5, [0])]]
    lines = list(log_lines(run(case_of(ranks, TWO), lenient=True)))
    assert [line for line in lines if "finished" in line] == [
        "sys[0] finished, 5000 cycles, exposed communication 0 cycles."
    ]
    assert times_by_kind(run(on_all(cycle, TWO), lenient=True), 0) == {"GPU": 5000}


def test_roofline_means_are_weighted_by_time() -> None:
    """10⁹ operations on 10⁶ bytes at 100 TFLOP/s: 10 µs, 1,000 operations per byte, 1/16 of 1.6 TB/s."""
    node = comp(0, 0, num_ops=10**9, tensor_size=10**6)
    result = run(on_all([node], TWO, sys=system(roofline_enabled=1, peak_perf=100)))
    assert [line for line in log_lines(result) if line.startswith("sys[0], ")][-4:] == [
        "sys[0], Compute bound percentage: 99.990%",
        "sys[0], Average compute utilization: 99.990%",
        "sys[0], Average memory utilization: 6.249%",
        "sys[0], Average operation intensity: 999.900",
    ]
