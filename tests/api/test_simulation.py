"""Simulations from Python: words of the command line, files, jobs, and ASTRA-sim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from support.astra_cases import system, write_files


@pytest.fixture
def traces() -> ck.TraceSet:
    """Two ranks: 1 µs, then an all-reduce."""
    t = ck.TraceBuilder()
    work = t.comp("work", duration_ns=1000)
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 1 << 20, deps=[work])
    return ck.TraceSet([t.build()] * 2)


def test_words_and_mappings_mean_the_same(traces: ck.TraceSet) -> None:
    words: dict[str, Any] = {"algorithms": ["all-reduce=ring"], "stragglers": ["1=2"]}
    maps: dict[str, Any] = {"algorithms": {"all-reduce": "ring"}, "stragglers": {1: 2.0}}
    first, second = (ck.simulate(traces, "dgx-h100", **given) for given in (words, maps))
    assert first.summary == second.summary
    assert first.summary.ranks[1].compute_ns == 2 * first.summary.ranks[0].compute_ns


def test_a_run_is_written_with_its_times(traces: ck.TraceSet, tmp_path: Path) -> None:
    done = ck.simulate(traces, "dgx-h100", output=tmp_path / "run")
    assert ck.read(tmp_path / "run").makespan_ns == pytest.approx(done.makespan_ns)


def test_jobs_of_one_name_are_numbered(traces: ck.TraceSet, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        ck.write(traces, tmp_path / folder / "w")
    done = ck.simulate_jobs([tmp_path / "a" / "w", tmp_path / "b" / "w", traces], "dgx-h100")
    assert [job.name for job in done.summary.jobs] == ["w", "w 2", "job 2"]


def test_astra_gives_cycles_and_a_run(traces: ck.TraceSet, tmp_path: Path) -> None:
    files = write_files(tmp_path, system("direct"), ranks=2)
    done = ck.simulate(traces, astra=files, backend="aware", output=tmp_path / "run")
    assert done.cycles.tolist() == [done.facts().max_cycles] * 2
    assert done.exposed[0] == done.cycles[0] - 1000
    run = ck.read(tmp_path / "run")
    assert run.makespan_ns == done.cycles.max()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"astra": ("s", "n", "m"), "jitter": 0.1}, "jitter is not for astra"),
        ({"astra": ("s", "n", "m"), "machine": "dgx-h100"}, "machine is not for astra"),
        ({"astra": ("s", "n")}, "astra has 2 files; give the system, the network, the memory"),
        (
            {"astra": ("s", "n", "m"), "queue": 2},
            "astra has no option 'queue'; did you mean 'queues'",
        ),
        ({"machine": "dgx-h100", "queues": 2}, "queues is for astra"),
    ],
)
def test_options_of_the_other_simulator_are_not_dropped(
    traces: ck.TraceSet, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ck.ConfigError, match=said.replace("?", r"\?")):
        ck.simulate(traces, **options)
