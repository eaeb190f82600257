"""Which jobs can meet on a link."""

from __future__ import annotations

from chakrakit.machines import parse_machine
from chakrakit.simulator.results import jobs as room
from chakrakit.simulator.results.jobs import meeting

NONE: tuple[str, ...] = ()


def test_jobs_inside_nodes_of_their_own_meet_nobody(narrow):
    assert meeting(narrow, [(0, 1), (4, 5)], [NONE, NONE]) == [(0,), (1,)]


def test_a_job_joins_those_on_either_side_of_it(narrow):
    """Jobs 0 and 1 are apart; job 2 leaves both of their nodes and shares the ways up of each."""
    assert meeting(narrow, [(0, 4), (8, 12)], [NONE, NONE]) == [(0,), (1,)]
    assert meeting(narrow, [(0, 4), (8, 12), (1, 9)], [NONE] * 3) == [(0, 1, 2)]


def test_a_job_too_large_to_look_at_may_use_any_link(narrow, monkeypatch):
    monkeypatch.setattr(room, "MOST_PAIRS", 3)
    assert meeting(narrow, [(0, 1), (4,)], [NONE, NONE]) == [(0,), (1,)]
    assert meeting(narrow, [(0, 1), (4, 5)], [NONE, NONE]) == [(0, 1)]


def test_jobs_meet_at_the_store_they_share():
    made = parse_machine(
        {
            "network": [
                {"topology": "switch", "size": 2, "bandwidth": "100 GB/s"},
                {"topology": "switch", "size": 4, "bandwidth": "10 GB/s"},
            ],
            "storage": {
                "remote": {"kind": "remote", "nodes": [3], "bandwidth": "4 GB/s"},
                "disk": {"kind": "local", "bandwidth": "2 GB/s"},
            },
        },
        "stores",
    )
    places = [(0, 1), (2, 3)]
    assert meeting(made, places, [{"remote"}, {"remote"}]) == [(0, 1)]
    assert meeting(made, places, [{"remote"}, {"disk"}]) == [(0,), (1,)]
