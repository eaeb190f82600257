"""What a row is called, and what it inherits from the rows around it, however deep."""

from dataclasses import dataclass

import numpy as np
import pytest

from chakrakit.sources.pytorch.timeline import inherit, nearest


@dataclass
class Rows:
    """Of a timeline, which rows run inside which."""

    parent: np.ndarray

    def __len__(self):
        return len(self.parent)


def handed_down(parent, values):
    return inherit(Rows(np.array(parent)), np.array(values)).tolist()


def test_the_nearest_row_above_that_has_a_value():
    assert handed_down([-1, 0, 1, 2, -1, 4], [7, -1, 3, -1, -1, -1]) == [7, 7, 3, 3, -1, -1]


def test_rows_nested_forty_thousand_deep():
    """Looks double their reach: a handful of rounds, not one for every level."""
    depth = 40_000
    values = np.full(depth, -1)
    values[0] = 5
    assert set(handed_down(np.arange(-1, depth - 1), values)) == {5}


@pytest.fixture
def names(recording):
    """`a` is in both files, `lost` in the observer's alone, the kernel in Kineto's alone."""
    recording.op("a", 0, 5)
    recording.op("lost", 10, 5)
    del recording.events[1]
    recording.launch(2, start=20, dur=3, corr=1, name="k")
    return recording.link().names


def test_a_row_is_called_what_either_file_calls_it(names):
    found = [names[r] for r in range(len(names.number))]
    assert sorted(found) == ["a", "cudaLaunchKernel", "k", "lost"]
    assert names.column().to_pylist() == found


def test_a_question_is_asked_once_for_every_name_in_use(names):
    asked = []
    rows = names.where(lambda name: asked.append(name) or name == "k")
    assert sorted(asked) == ["a", "cudaLaunchKernel", "k", "lost"]
    assert [names[r] for r in rows.nonzero()[0]] == ["k"]
    assert [names[r] for r in names.matching("^cuda").nonzero()[0]] == ["cudaLaunchKernel"]


def test_the_nearest_chosen_row_may_be_the_row_itself():
    line = Rows(np.array([-1, 0, 1, -1]))
    assert nearest(line, np.array([True, False, True, False])).tolist() == [0, 0, 2, -1]
