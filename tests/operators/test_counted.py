"""Operations and bytes of NumPy functions, against counts by hand."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.operators import counted
from chakrakit.operators.counted import Count
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

N = 100
X = np.arange(N, dtype=np.float64)


@pytest.mark.parametrize(
    ("function", "operations", "read", "written"),
    [
        (lambda x: x + 1, N, 8 * N, 8 * N),
        (lambda x: x * x, N, 16 * N, 8 * N),
        (lambda x: x.sum(), N, 8 * N, 0),
        (lambda x: np.cumsum(x), N, 8 * N, 8 * N),
        (lambda x: x[10:20] + x[:10], 10, 160, 80),
        (lambda x: x[np.array([1, 5, 7])], 0, 2 * 24, 24),
        (lambda x: x.reshape(10, 10) @ x.reshape(10, 10), 2000, 16 * N, 8 * N),
        (lambda x: np.dot(x, x), 2 * N, 16 * N, 0),
        (lambda x: np.einsum("i,j->", x, x), 2 * N**2, 16 * N, 0),
        (lambda x: np.sqrt(np.abs(x)), 2 * N, 16 * N, 16 * N),
        (lambda x: x.argsort(), N * np.log2(N), 8 * N, 8 * N),
        (lambda x: x.sort(), N * np.log2(N), 8 * N, 8 * N),
        (lambda x: x.dot(x), 2 * N, 16 * N, 0),
        (lambda x: x.cumsum(), N, 8 * N, 8 * N),
        (lambda x: x.take([3, 4]), N, 8 * N, 16),
        (lambda x: x.astype(np.float32), 0, 8 * N, 4 * N),
        (lambda x: x.fill(1.0), 0, 0, 8 * N),
        (lambda x: x.tolist(), 0, 8 * N, 0),
        (lambda x: np.searchsorted(x, x[:8]), 8 * np.log2(N), 8 * (N + 8), 64),
        (lambda x: np.convolve(x, x[:3]), 2 * N * 3, 8 * (N + 3), 8 * (N + 2)),
        (lambda x: np.fft.fft(x), 5 * N * np.log2(N), 8 * N, 16 * N),
        (lambda x: np.fft.rfft(x), 2.5 * N * np.log2(N), 8 * N, 16 * (N // 2 + 1)),
        (lambda x: np.fft.fft2(x.reshape(10, 10)), 5 * N * np.log2(N), 8 * N, 16 * N),
        (lambda x: np.fft.fft(x.reshape(4, 25), axis=0), 5 * N * 2, 8 * N, 16 * N),
    ],
)
def test_counts_by_hand(function, operations, read, written):
    count = counted(function, X.copy())
    assert count.operations == pytest.approx(operations)
    assert (count.read_bytes, count.written_bytes) == (read, written)


def test_arrays_in_lists_and_dictionaries_are_counted():
    assert counted(lambda pair: pair[0] + pair[1], [X, X]).operations == N
    assert counted(lambda named: named["x"] + 1, {"x": X}).operations == N


def test_functions_whose_operations_nobody_knows_are_refused():
    with pytest.raises(ConfigError, match=r"np\.linalg\.svd: how many operations"):
        counted(lambda x: np.linalg.svd(x), X.reshape(10, 10))


def test_what_is_computed_is_the_same_as_without_counting():
    def spmv(values, columns, starts, x):
        return np.add.reduceat(values * x[columns], starts)

    rng = np.random.default_rng(0)
    columns, starts = rng.integers(0, N, 300), np.arange(0, 300, 3)
    values = rng.random(300)
    results = []
    count = counted(lambda *a: results.append(spmv(*a)), values, columns, starts, X)
    assert np.allclose(results[0], spmv(values, columns, starts, X))
    assert count.operations == 300 + 300  # products, then sums


def test_writes_into_an_array_are_counted():
    def fill(x):
        y = np.zeros_like(x)
        y[1:-1] = (x[:-2] + x[2:]) / 2
        return y

    count = counted(fill, X)
    assert count.written_bytes == 8 * (N + 3 * (N - 2))


def test_a_count_scaled_up_is_a_node_that_a_device_bounds():
    count = counted(lambda x: x + 1, X).scaled(1e7)
    t = TraceBuilder()
    t.comp("add", **count.node(), dtype="fp64")
    device = {"peak": {"fp64": 1e12}, "memory_bandwidth": 1e12}
    machine = ck.machine(
        {"device": device, "network": [{"topology": "switch", "size": 1, "bandwidth": 1}]}
    )
    done = ck.simulate(TraceSet.of(t), machine, compute="roofline")
    assert done.makespan_ns * 1e-9 == pytest.approx(16 * N * 1e7 / 1e12)


def test_sorting_counts_comparisons():
    assert counted(np.sort, X).operations == pytest.approx(N * np.log2(N))


def test_nothing_to_count_and_impossible_factors_are_refused():
    with pytest.raises(ConfigError, match="nothing was counted"):
        counted(lambda: 1)
    for factors in ((-1,), (1, -1), (-1, 1), (np.inf,), (1, np.inf)):
        with pytest.raises(ConfigError, match="factors"):
            counted(lambda x: x + 1, X).scaled(*factors)
    assert counted(lambda x: x + 1, X).scaled(0, 0).bytes == 0


def test_windows_and_repeated_elements_are_read_once():
    def windows(x):
        return np.lib.stride_tricks.sliding_window_view(x, 5).sum(axis=1)

    assert counted(windows, X).read_bytes == 8 * N
    assert counted(lambda x: np.broadcast_to(x, (50, N)) + 1, X).read_bytes == 8 * N


def test_a_count_of_nothing_is_nothing():
    assert (Count().operations, Count().bytes, Count().calls) == (0, 0, 0)
