"""A profile as planes, lines and events, with the names that their numbers stand for."""

from __future__ import annotations

import struct

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import is_xplane
from chakrakit.sources.xla.xplane import read_planes
from chakrakit.trace.model import field_bytes, varint


def message(*fields):
    """A message of (field number, value): numbers, texts, doubles, or messages as bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value % 2**64)
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            out += field_bytes(number, value.encode() if isinstance(value, str) else value)
    return out


def entry(number, *fields):
    """One entry of a map from numbers to messages."""
    return message((1, number), (2, message((1, number), *fields)))


STATS = ((1, "hlo_op"), (2, "occupancy"), (3, "size"), (4, "shared text"), (5, "left"))


@pytest.fixture
def profile():
    """A device with one line: one event of 2 µs that begins 5 µs after its line's 1 ms."""
    stats = [(5, entry(n, (2, name))) for n, name in STATS]
    said = (
        (4, message((1, 1), (7, 4))),  # the text that stat 4 names
        (4, message((1, 2), (2, 0.5))),
        (4, message((1, 3), (3, 1 << 40))),
        (4, message((1, 5), (4, -7))),
    )
    event = message((1, 9), (2, 5_000_000), (3, 2_000_000), *said)
    line = message((1, 3), (2, "Stream #7"), (3, 1_000_000), (4, event))
    kind = entry(9, (2, "fusion.1"), (4, "fusion"), (5, message((1, 3), (5, "replaced"))))
    plane = message(
        (2, "/device:GPU:0"), (3, line), (4, kind), *stats, (6, message((1, 3), (5, "x")))
    )
    return message((1, plane))


def test_an_event_has_its_kind_s_name_its_times_and_its_stats(profile):
    (plane,) = read_planes(profile)
    ((name, number, (event,)),) = plane.lines()
    assert (plane.name, name, number) == ("/device:GPU:0", "Stream #7", 3)
    assert (event.name, event.start, event.end) == ("fusion", 1_005_000, 1_007_000)
    assert event.stats == {
        "hlo_op": "shared text",
        "occupancy": 0.5,
        "size": 1 << 40,  # what the event says counts, not what its kind does
        "left": -7,
    }


def test_a_plane_and_its_kinds_of_events_have_stats_of_their_own(profile):
    (plane,) = read_planes(profile)
    assert plane.stats == {"size": "x"}
    assert plane.metadata == [("fusion.1", {"size": "replaced"})]


def test_an_event_of_an_unknown_kind_has_no_name_and_never_a_negative_length():
    event = message((1, 77), (2, 4_000), (3, -1))
    plane = message((2, "p"), (3, message((4, event))))
    ((_, _, (found,)),) = read_planes(message((1, plane)))[0].lines()
    assert (found.name, found.start, found.end) == ("", 4, 4)


@pytest.mark.parametrize(
    ("head", "answer"),
    [(b"\x0a\x20\x12\x09/host:CPU", True), (b"\x0a\x05hello", False), (b"/device:GPU:0", False)],
)
def test_a_profile_is_told_by_its_planes(head, answer):
    assert is_xplane(head) is answer


def test_damage_is_one_clear_error():
    with pytest.raises(
        FormatError, match=r"not a profile of XLA: .*; give the xplane\.pb"
    ) as error:
        read_planes(b"\x0a\x7fshort", "run.xplane.pb")
    assert error.value.path == "run.xplane.pb"


def test_a_stat_of_bytes_that_is_a_number_has_no_bytes():
    plane = message((2, "/host:CPU"), (5, entry(3, (2, "size"))), (6, message((1, 3), (6, 5))))
    (found,) = read_planes(message((1, plane)))
    assert found.stats == {"size": 0}
