"""Attention as measured: a grid filled where nothing was measured, and unequal contexts."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.steps import measured as grid
from chakrakit.serving.steps.measured import filled_grid, shares


def table(*rows, **more):
    """Rows of chunk, history, decodes, context and microseconds."""
    names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    return dict(zip(names, np.array(rows, float).T, strict=True)) | more


def test_contexts_between_and_beyond_the_measured_ones_are_on_a_line() -> None:
    """One decode at 100 and 300 tokens, two at all three: 5, 9 µs give 7 µs at 200."""
    axes, values = filled_grid(
        table(
            (0, 0, 1, 100, 5), (0, 0, 1, 300, 9), (0, 0, 2, 100, 6), (0, 0, 2, 200, 8), (0, 0, 2, 300, 10)
        )
    )  # fmt: skip
    assert axes[3].tolist() == [100, 200, 300]
    assert values[0, 0].tolist() == [[5, 7, 9], [6, 8, 10]]


def test_without_decodes_their_context_does_not_matter() -> None:
    rows = [(8, 0, 0, 0, 4), (8, 0, 1, 100, 5), (8, 0, 1, 200, 6)]
    _, values = filled_grid(table(*rows))
    assert values[0, 0, 0].tolist() == [4, 4, 4]


def test_the_history_of_a_chunk_may_be_given_as_its_mean_context() -> None:
    """A chunk of 8 whose tokens see 14 others on average had 10 before it."""
    given = table((8, 0, 1, 100, 5), (8, 0, 1, 200, 6))
    del given["kv_prefill"]
    axes, _ = filled_grid({**given, "prefill_key": np.array([14.0, 14.0])})
    assert axes[1].tolist() == [10]


def test_decodes_of_several_tokens_are_another_kernel_s() -> None:
    rows = [(0, 0, 1, 100, 5), (0, 0, 1, 200, 6), (0, 0, 1, 200, 99)]
    _, values = filled_grid(table(*rows, decode_q_len=np.array([1, 1, 4])))
    assert values.reshape(-1).tolist() == [5, 6]


def test_a_grid_too_large_or_without_history_is_refused(monkeypatch) -> None:
    given = table((0, 0, 1, 100, 5), (0, 0, 1, 200, 6))
    del given["kv_prefill"]
    with pytest.raises(ConfigError, match="neither kv_prefill nor prefill_key"):
        filled_grid(given)
    monkeypatch.setattr(grid, "MOST_CELLS", 1)
    with pytest.raises(ConfigError, match="spans a grid of 2 cells; from 1 to 1"):
        filled_grid(table((0, 0, 1, 100, 5), (0, 0, 1, 200, 6)))


def test_where_unequal_contexts_lie_between_the_mean_and_the_longest() -> None:
    """Of a rise of 10 µs they take 4 µs with 2 decodes and all of it with 4; 3 decodes lie between."""
    skew = {
        "pc": np.array([0.0, 0, 0, 512]),
        "n": np.array([2.0, 4, 4, 3]),
        "t_mean_us": np.array([10.0, 10, 10, 10]),
        "t_max_us": np.array([20.0, 20, 10, 20]),
        "t_skew_us": np.array([14.0, 25, 99, 12]),
    }
    chunks, counts, found = shares(skew)
    assert (chunks.tolist(), counts.tolist()) == ([0, 512], [2, 3, 4])
    assert found[0].tolist() == pytest.approx([0.4, 0.7, 1.0])
    assert found[1].tolist() == pytest.approx([0.2] * 3)
