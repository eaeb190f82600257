"""Layouts: which attributes rows have, shared by rows that have the same."""

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.model import Layout, Layouts

SIZE = Layout(0, (("comm_size", 9),))
BOTH = Layout(0, (("comm_size", 9), ("stream", 9)))
RAW = Layout(1, ((None, 0), ("stream", 9), (None, 0)))


def rows(*numbers):
    return np.array(numbers, np.int32)


def test_merging_appends_what_is_new_and_renumbers():
    merged, numbers = Layouts((SIZE, BOTH)).merge(Layouts((RAW, BOTH)))
    assert merged.items == (SIZE, BOTH, RAW)
    assert numbers.tolist() == [2, 1]


def test_merging_what_is_there_already_makes_nothing():
    layouts = Layouts((SIZE, BOTH))
    assert layouts.merge(Layouts((BOTH,)))[0] is layouts
    assert layouts.merge(layouts)[1].tolist() == [0, 1]


def test_only_layouts_in_use_are_kept():
    layouts, renumbered = Layouts((SIZE, BOTH, RAW)).used(rows(2, 0, 2))
    assert layouts.items == (SIZE, RAW)
    assert renumbered.tolist() == [1, 0, 1]


def test_a_row_without_its_layout_is_refused():
    with pytest.raises(FormatError, match="refers to a layout that is not there"):
        Layouts((SIZE,)).used(rows(0, 5))


def test_an_attribute_appears_where_it_is_said_to_be():
    """Row 0 gains `stream`, row 1 loses it."""
    layouts, numbers = Layouts((SIZE, BOTH)).edited(
        rows(0, 1), "stream", np.array([True, False]), 9, [9]
    )
    assert [layouts.items[n] for n in numbers] == [BOTH, SIZE]


def test_a_member_that_cannot_stay_is_changed_and_one_that_can_is_not():
    here = np.array([True])
    changed, numbers = Layouts((SIZE,)).edited(rows(0), "comm_size", here, 13, [13])
    assert changed.items[numbers[0]] == Layout(0, (("comm_size", 13),))
    kept, _ = Layouts((SIZE,)).edited(rows(0), "comm_size", here, 13, [9, 13])
    assert kept.items == (SIZE,)


def test_of_the_raw_attributes_some_may_go():
    assert RAW.with_raw([False, True]) == Layout(1, (("stream", 9), (None, 0)))


def test_names_members_and_plain_form():
    layouts = Layouts((RAW, BOTH))
    assert layouts.names() == ["stream", "comm_size"]
    assert layouts.members("comm_size").tolist() == [0, 9]
    assert Layouts.from_plain(layouts.to_plain()) == layouts


def test_the_cores_arrays_and_back():
    number = {"comm_size": 0, "stream": 1}
    arrays = Layouts((SIZE, RAW)).to_core(number)
    assert [a.tolist() for a in arrays] == [[0, 1], [0, 1, 4], [0, -1, 1, -1], [9, 0, 9, 0]]
    assert Layouts.from_core(list(number), *arrays).items == (SIZE, RAW)
