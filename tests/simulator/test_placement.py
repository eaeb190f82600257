"""Which devices each job runs on."""

import json

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, FormatError
from chakrakit.simulator.results import place_jobs, read_job_placement
from chakrakit.simulator.results.jobs import check_places

MACHINE = ck.load_machine("dgx-h100:3")  # nodes of eight


def test_every_job_is_on_nodes_of_its_own_while_there_are_enough():
    first, second = place_jobs([4, 10], MACHINE)
    assert (first, second) == (tuple(range(4)), tuple(range(8, 18)))


def test_else_they_follow_one_another_without_gaps():
    places = place_jobs([4, 4, 10], MACHINE)
    assert [p[0] for p in places] == [0, 4, 8]
    assert places[2][-1] == 17


def test_spread_deals_ranks_out_over_all_nodes():
    first, second = place_jobs([3, 3], MACHINE, spread=True)
    assert (first, second) == ((0, 8, 16), (1, 9, 17))


def test_more_ranks_than_devices_are_refused():
    with pytest.raises(ConfigError, match="has 24 devices and the jobs 25 ranks"):
        place_jobs([25], MACHINE)


def test_a_device_runs_one_rank():
    check_places([(0, 1), (2,)])
    with pytest.raises(ConfigError, match="device 1 is given to job 0 and job 1"):
        check_places([(0, 1), (1,)])


def test_a_placement_from_a_file(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"a": [1, 0], "b": [2]}))
    assert read_job_placement(str(path), ["a", "b"], [2, 1]) == [(1, 0), (2,)]
    with pytest.raises(FormatError, match="job 'b' has 2 ranks and the placement 1 devices"):
        read_job_placement(str(path), ["a", "b"], [2, 2])
