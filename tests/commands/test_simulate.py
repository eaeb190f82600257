"""`chakra simulate --machine` as a shell runs it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, read, write
from chakrakit.commands import group, main
from support.astra_cases import system, write_files
from support.commands import chakra, data, succeeded


@pytest.fixture
def workload(tmp_path):
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10_000, num_ops=10**9, tensor_size=10**6)
    t.collective("c", CollectiveType.ALL_REDUCE, 10**6, deps=[work])
    path = tmp_path / "w"
    write(TraceSet([t.build()], {i: Binding(0) for i in range(8)}, Groups({"": range(8)})), path)
    return str(path)


def run(*words):
    return CliRunner().invoke(group, list(words), catch_exceptions=False)


def test_the_promised_json(workload, tmp_path):
    target = str(tmp_path / "run")
    done = run("simulate", workload, "--machine", "dgx-h100", "-o", target, "--json")
    found = json.loads(done.stdout)
    assert {"makespan_ns", "ranks", "fold"} <= set(found)
    assert {"rank", "finish_ns", "compute_ns", "exposed_comm_ns", "idle_ns", "peak_bytes"} <= set(
        found["ranks"][0]
    )
    assert found["fold"]["factor"] == 8
    assert found["fold"]["why"]
    assert read(target).makespan_ns == pytest.approx(found["makespan_ns"])


@pytest.mark.parametrize(
    "words",
    [
        ("--no-fold",),
        ("--network", "analytical"),
        ("--compute", "roofline"),
        ("--algorithm", "all-reduce=ring"),
        ("--jitter", "0.1", "--seed", "3"),
        ("--straggler", "2=1.5"),
        ("--fault", "device:1@100=0.5"),
        ("--fault", "link:0-switch 0.0@0=0.5"),
        ("--share-compute",),
        ("--detail", "full"),
    ],
)
def test_options(workload, words):
    assert run("simulate", workload, "--machine", "dgx-h100", *words).exit_code == 0


def test_a_placement_moves_ranks(workload, tmp_path):
    """Half of the ranks on another node: the all-reduce has to cross the network."""
    file = tmp_path / "placement.json"
    file.write_text("[0, 1, 2, 3, 8, 9, 10, 11]")
    words = ("simulate", workload, "--machine", "dgx-h100:2", "--json")
    near, far = (json.loads(run(*words, *more).stdout) for more in ((), ("--placement", str(file))))
    assert far["makespan_ns"] > near["makespan_ns"]
    target = str(tmp_path / "run")
    run(*words, "--placement", str(file), "-o", target)
    assert read(target).card.settings["placement"] == [0, 1, 2, 3, 8, 9, 10, 11]


def test_folding_changes_nothing(workload):
    words = ("simulate", workload, "--machine", "dgx-h100", "--json")
    a, b = (json.loads(run(*words, *more).stdout) for more in ((), ("--no-fold",)))
    assert a["ranks"] == b["ranks"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--machine", "nowhere"), "neither a file nor a preset"),
        (("--machine", "ethernet-100g:2"), "2 devices and the workload 8 ranks"),
        (("--machine", "dgx-h100", "--algorithm", "all-reduce"), "LEFT=RIGHT"),
        (("--machine", "dgx-h100", "--algorithm", "all-reduce=magic"), "no algorithm 'magic'"),
        (("--machine", "dgx-h100", "--straggler", "x=2"), "RANK=FACTOR"),
        (("--machine", "dgx-h100", "--fault", "sun"), "device:RANK@NS=FACTOR"),
        (("--machine", "dgx-h100", "--fault", "link:0-7@0=0.5"), "no link between"),
        (
            ("--machine", "dgx-h100", "--compute", "guess"),
            "there are auto, measured, data-sheet, roofline",
        ),
        (("--machine", "dgx-h100", "--network-model", "guess"), "cannot be read"),
        (("--machine", "dgx-h100", "--placement", "guess"), "cannot be read"),
        (("--machine", "dgx-h100", "--placement", __file__), "not a placement"),
    ],
)
def test_errors_are_a_line_and_exit_two(workload, words, said, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["simulate", workload, *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


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
        (
            {"astra": ("s", "n", "m"), "jitter": 0.1},
            "--jitter is for --machine; leave it out with --astra",
        ),
        (
            {"astra": ("s", "n", "m"), "machine": "dgx-h100"},
            "say what to simulate on: --machine or --astra, not both",
        ),
        ({"astra": ("s", "n")}, "astra has 2 files; give the system, the network, the memory"),
        (
            {"astra": ("s", "n", "m"), "queue": 2},
            "simulate has no option 'queue'; did you mean 'queues'",
        ),
        (
            {"machine": "dgx-h100", "queues": 2},
            "--queues is for --astra; leave it out with --machine",
        ),
    ],
)
def test_options_of_the_other_simulator_are_not_dropped(
    traces: ck.TraceSet, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ck.ConfigError, match=said.replace("?", r"\?")):
        ck.simulate(traces, **options)


def test_a_simulation_in_a_screen(runs: Path) -> None:
    told = succeeded("simulate", runs / "fast", "--machine", "dgx-h100", "--compute", "measured")
    assert "on dgx-h100 (flow network, measured compute: recorded)" in told
    assert "compute time: 100 % measured" in told.splitlines()
    assert re.search(r"^ALL_REDUCE|all-reduce +\S+ +2 +0\.000 +1 ", told, re.M)


def test_equal_ranks_share_a_row_and_long_lists_are_cut(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.comp("work", duration_ns=1000)
    write(TraceSet([t.build()], {rank: Binding(0) for rank in range(32)}), tmp_path / "many")
    words = ("simulate", tmp_path / "many", "--machine", "dgx-h100:4", "--compute", "measured")
    assert "0–31 (32) " in succeeded(*words)
    slower = [word for rank in range(9) for word in ("--straggler", f"{rank}={rank + 2}")]
    assert "… and 6 more kinds of ranks; --json has all" in succeeded(*words, *slower)


def test_jobs_are_told_against_running_alone(runs: Path) -> None:
    words = ("--machine", "dgx-h100", "--compute", "measured")
    told = succeeded("simulate", runs / "fast", runs / "slow", *words).splitlines()
    assert told[0].split() == ["job", "ranks", "ms", "alone", "ms", "slowdown"]
    assert [(line.split()[0], line.split()[-1]) for line in told[1:]] == [
        ("fast", "1.000"),
        ("slow", "1.000"),
    ]


def test_several_jobs_need_a_machine(runs: Path) -> None:
    both = ("--compute", "measured", "--communication", "measured")
    done = chakra("simulate", runs / "fast", runs / "slow", *both)
    assert done.exit_code == 2
    assert "several jobs run on a machine: give --machine" in done.stderr


def test_jobs_that_do_not_fit_say_so(runs: Path, tmp_path: Path) -> None:
    ck.write(
        ck.generate(model="gpt3-125m", dp=2, seq=64, global_batch=2).traces, tmp_path / "large"
    )
    machine = tmp_path / "small.yaml"
    machine.write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory: 1 GB}\n"
        "network: [{topology: switch, size: 4, bandwidth: 1 GB/s}]\n"
    )
    words = ("simulate", tmp_path / "large", tmp_path / "large", "--machine", machine)
    told = succeeded(*words).splitlines()
    assert [line.partition(" needs")[0] for line in told[:2]] == [
        "DOES NOT FIT: rank 0 of large",
        "DOES NOT FIT: rank 0 of large 2",
    ]
    jobs = data(*words)["jobs"]
    assert [job["fits"] for job in jobs] == [False, False]
    assert jobs[0]["needs_bytes"] > jobs[0]["has_bytes"] == 10**9
