"""Which observer node is which Kineto event, and by which rule that was found."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.joining import Join, join
from chakrakit.sources.pytorch.read import read_kineto, read_observer

NAMES = ("aten::mm", "aten::add", "aten::mm", "aten::neg")


@pytest.fixture
def both(recording):
    """Four operators in both files, the Kineto events written backwards."""
    for i, name in enumerate(NAMES):
        recording.op(name, 10 * i, 5)
    recording.events.reverse()
    return recording


def joined(recording):
    observer = read_observer(recording.observer_json().encode())
    found = join(observer, read_kineto(recording.kineto_json().encode()))
    return found.event_of[observer.is_operator].tolist(), found.rules


def rename_numbers(recording, key):
    """Write the record-function ids under another key, or leave them out."""
    for event in recording.events:
        number = event["args"].pop("Record function id")
        event["args"] |= {key: number} if key else {}


def test_record_function_ids_are_exact(both):
    assert joined(both) == ([3, 2, 1, 0], {"record function id": 4})


def test_external_ids_serve_where_names_agree(both):
    rename_numbers(both, "External id")
    assert joined(both) == ([3, 2, 1, 0], {"external id": 4})


def test_external_ids_of_another_counter_are_not_believed(both):
    """Every number belongs to the neighbour, so its name is another: order and name decide."""
    rename_numbers(both, "External id")
    for event in both.events:
        event["args"]["External id"] = event["args"]["External id"] % 4 + 1
    assert joined(both) == ([3, 2, 1, 0], {"order and name": 4})


def test_without_numbers_the_thread_most_alike_is_taken(both):
    rename_numbers(both, "")
    both._event("cpu_op", "aten::mm", 2, 0, 5)
    assert joined(both) == ([3, 2, 1, 0], {"order and name": 4})


def test_what_only_the_observer_saw_has_no_event(both):
    del both.events[0]
    assert joined(both) == ([2, 1, 0, -1], {"record function id": 3})


def test_operators_of_events_are_the_inverse():
    assert Join(np.array([2, -1, 0]), {}).operators(4).tolist() == [2, -1, 0, -1]


def test_operators_of_two_passes_are_as_given():
    given = np.array([1, 1])
    assert Join(np.array([-1, 0]), {}, given).operators(2) is given
