"""Level of detail: whatever the zoom, no busy time is lost, and zoomed in every slice is there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.views.app.lod import SliceLine, TimeWindow
from support.examples import examples


@st.composite
def lines(draw) -> SliceLine:
    """Gaps and lengths one after another; both may be 0, as instants and neighbours are."""
    n = draw(st.integers(1, 60))
    gaps = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    lengths = draw(
        st.lists(st.one_of(st.integers(0, 3), st.integers(0, 80)), min_size=n, max_size=n)
    )
    code = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    start = np.cumsum(np.array(gaps) + np.r_[0, lengths[:-1]])
    return SliceLine(start, start + lengths, np.arange(n, dtype=np.int32), np.array(code, np.int8))


windows = st.builds(
    lambda begin, length, buckets: TimeWindow(begin, begin + length, buckets),
    st.integers(-20, 400),
    st.integers(1, 500),
    st.integers(1, 40),
)


def overlap(line: SliceLine, i: int, begin: int, end: int) -> int:
    return max(min(int(line.end[i]), end) - max(int(line.start[i]), begin), 0)


@examples(60)
@given(lines(), windows)
def test_what_is_drawn_and_what_is_summed_fill_each_part_exactly(line, window):
    detail = line.window(window)
    summed = dict(zip(detail.bucket.tolist(), detail.busy.tolist(), strict=True))
    for part, (a, b) in enumerate(zip(window.borders[:-1], window.borders[1:], strict=True)):
        all_of_it = sum(overlap(line, i, a, b) for i in range(len(line)))
        drawn = sum(overlap(line, i, a, b) for i in detail.at.tolist())
        assert drawn + summed.get(part, 0) == all_of_it


@examples(60)
@given(lines(), windows)
def test_every_slice_that_begins_in_the_window_is_drawn_or_counted(line, window):
    detail = line.window(window)
    inside = (line.start >= window.begin) & (line.start < window.end)
    drawn = inside[detail.at].sum()
    assert drawn + detail.count.sum() == inside.sum()
    assert len(detail.at) <= 2 * window.buckets + 2


@examples(60)
@given(lines(), st.integers(0, 400), st.integers(1, 40))
def test_zoomed_in_every_slice_is_drawn(line, begin, length):
    window = TimeWindow(begin, begin + length, 100)
    touched = [i for i in range(len(line)) if line.end[i] >= begin and line.start[i] < window.end]
    assert line.window(window).at.tolist() == touched


@examples(60)
@given(lines(), windows)
def test_a_part_is_named_after_what_fills_most_of_it(line, window):
    detail = line.window(window)
    drawn = set(detail.at.tolist())
    for part, busy, code in zip(
        detail.bucket.tolist(), detail.busy.tolist(), detail.code.tolist(), strict=True
    ):
        a, b = window.borders[part], window.borders[part + 1]
        by_code = [0, 0, 0]
        for i in set(range(len(line))) - drawn:
            by_code[line.code[i]] += overlap(line, i, a, b)
        assert busy == 0 or by_code[code] == max(by_code)


def test_long_slices_are_drawn_one_by_one_among_crowds_of_short_ones():
    start = np.r_[np.arange(0, 1000, 2), 1000, np.arange(1500, 2000, 2)]
    end = np.r_[np.arange(1, 1001, 2), 1500, np.arange(1501, 2001, 2)]
    line = SliceLine(
        start, end, np.arange(len(start), dtype=np.int32), np.zeros(len(start), np.int8)
    )
    detail = line.window(TimeWindow(0, 2000, 20))
    assert [int(line.start[i]) for i in detail.at] == [1000]
    assert detail.bucket.tolist() == [*range(10), *range(15, 20)]
    assert set(detail.busy.tolist()) == {50}
    assert set(detail.count.tolist()) == {50}


def test_the_last_border_is_the_window_s_end_however_long():
    window = TimeWindow(3, 3 + 10**18 + 1, 7999)
    assert window.borders[0] == 3
    assert window.borders[-1] == window.end
    assert (np.diff(window.borders) > 0).all()
