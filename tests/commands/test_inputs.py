"""What commands take alike: paths or objects, workers by name, pairs and numbers as words."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import ConfigError, Run, TraceBuilder, TraceSet, write
from chakrakit.commands.inputs import numbers_of, pairs_of, traces_of, workers_of


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
    def workers(engine: str | None, jobs: int | None) -> object:
        return workers_of({"engine": engine, "jobs": jobs})

    assert workers(None, None) is workers(None, 1) is None
    assert workers(None, 3) == workers("local", 3)
    with pytest.raises(ConfigError, match="no engine 'slurm'"):
        workers("slurm", None)


def test_words_with_signs_and_commas() -> None:
    assert pairs_of(["all-reduce=ring", "a=b=c"]) == {"all-reduce": "ring", "a": "b=c"}
    assert numbers_of("1, 2,4") == [1, 2, 4]
    for read, text in ((pairs_of, ["all-reduce"]), (numbers_of, "two")):
        with pytest.raises(ValueError, match=r"write it as LEFT=RIGHT|give whole numbers"):
            read(text)
