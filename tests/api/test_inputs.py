"""What public functions take: paths or objects, workers by name, factors in two spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import ConfigError, Run, TraceBuilder, TraceSet, write
from chakrakit.api.inputs import faster_of, traces_of, workers_of


def traces() -> TraceSet:
    t = TraceBuilder()
    t.comp("work", duration_ns=5, start_ns=7)
    return TraceSet([t.build()])


def test_a_set_is_taken_as_it_is_and_a_path_is_read(tmp_path: Path) -> None:
    given = traces()
    write(given, tmp_path / "w")
    assert traces_of(given) is given
    assert len(traces_of(tmp_path / "w")) == 1


def test_where_times_are_needed_a_run_comes_out(tmp_path: Path) -> None:
    write(traces(), tmp_path / "w")
    for given in (traces(), tmp_path / "w"):
        run = traces_of(given, timed=True)
        assert isinstance(run, Run)
        assert run.makespan_ns == 5


def test_workers_are_none_for_this_process_alone() -> None:
    assert workers_of(None, None) is workers_of(None, 1) is None
    assert workers_of(None, 3) == workers_of("local", 3)
    with pytest.raises(ConfigError, match="no engine 'slurm'"):
        workers_of("slurm", None)


def test_factors_are_a_mapping_or_words() -> None:
    assert faster_of({"compute": 2}) == faster_of(["compute=2"]) == (("compute", 2.0),)
    assert faster_of(()) is None
    with pytest.raises(ConfigError):
        faster_of(["compute"])
