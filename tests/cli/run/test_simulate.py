"""`chakra simulate --machine` as a shell runs it."""

import json

import pytest
from click.testing import CliRunner

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, read, write
from chakrakit.cli import group, main


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
        (("--machine", "dgx-h100", "--compute", "guess"), "there are auto, measured, roofline"),
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
