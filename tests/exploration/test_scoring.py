"""Simulators held against steps that were timed: who predicts what, and how far off it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.exploration.scoring import score
from chakrakit.exploration.scoring.astra_binary import _network
from chakrakit.exploration.scoring.scores import at_constant_rate, predicted
from chakrakit.machines import load_machine
from chakrakit.trace.library import LibraryEntry, entry_of, write_index

PEAK = load_machine("dgx-h100").device(0).peak["bf16"]
ENTRY = LibraryEntry(
    name="one", file="one.chakra", bytes=1, sha256="", machine="dgx-h100", step_ns=2e6
)


def bundle(folder: Path, *gflops: int) -> Path:
    """One rank per number, each with two products of that many GFLOP together."""
    builders = [ck.TraceBuilder() for _ in gflops]
    for t, amount in zip(builders, gflops, strict=True):
        first = t.comp("mm", num_ops=amount * 10**9 // 2, duration_ns=1_000_000)
        t.comp("mm", num_ops=amount * 10**9 // 2, duration_ns=1_000_000, deps=[first])
    path = folder / "one.chakra"
    ck.bundle(ck.TraceSet.of(builders), path)
    return path


def test_a_constant_rate_is_all_flops_of_the_slowest_rank_at_the_peak(tmp_path: Path) -> None:
    assert at_constant_rate(ENTRY, bundle(tmp_path, 2, 6)) == pytest.approx(6e9 / PEAK * 1e9)


def test_without_flops_there_is_no_constant_rate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one says no FLOPs"):
        at_constant_rate(ENTRY, bundle(tmp_path, 0))


@pytest.mark.parametrize(
    ("program", "step"),
    [
        ('print(\'{"step_ns": 5, "makespan_ns": 9}\')', 5),
        ("print('{\"makespan_ns\": 9}')", 9),
        ("print('warming up'); print(7.5)", 7.5),
        ("import sys; print(len(sys.argv[1]))", len("a/path")),
    ],
)
def test_a_command_prints_its_step(program: str, step: float) -> None:
    assert predicted([sys.executable, "-c", program], ENTRY, Path("a/path")) == step


def test_the_path_and_the_machine_stand_where_the_command_wants_them() -> None:
    program = "import sys; print(int(sys.argv[1:] == ['dgx-h100', 'p', 'last']))"
    words = [sys.executable, "-c", program, "{machine}", "{}", "last"]
    assert predicted(words, ENTRY, Path("p")) == 1


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("print('nothing')", "printed no step"),
        ("print(0)", "printed 0.0 ns"),
        ("print('inf')", "printed inf ns"),
        ("import sys; sys.exit('no licence')", "ended with 1: no licence"),
    ],
)
def test_a_command_without_a_step_has_failed(program: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        predicted([sys.executable, "-c", program], ENTRY, Path("p"))


@pytest.mark.parametrize(
    ("machine", "ranks", "sizes"),
    [("dgx-h100", 2, [2]), ("dgx-h100", 8, [8]), ("dgx-h100:4", 16, [8, 2])],
)
def test_ranks_fill_dimensions_from_the_inside_out(
    machine: str, ranks: int, sizes: list[int]
) -> None:
    network = _network(load_machine(machine), ranks)
    assert network["npus_count"] == sizes
    assert network["bandwidth"][0] == 450.0  # GB/s of a link of NVSwitch
    assert {len(column) for column in network.values()} == {len(sizes)}


@pytest.mark.slow
def test_errors_are_shares_of_what_was_timed(tmp_path: Path) -> None:
    """Two milliseconds one after the other, timed as 2.5: our own simulator is a fifth below."""
    path = bundle(tmp_path, 4)
    write_index(tmp_path, [entry_of(path, machine="dgx-h100", step_ns=2.5e6)])
    result = score(tmp_path, [sys.executable, "-c", "print(5e6)"])
    errors = {s.simulator: s.error for s in result.scores}
    assert errors["chakrakit"] == pytest.approx(-0.2, abs=0.01)
    assert errors[Path(sys.executable).name] == pytest.approx(1.0)
    assert result.mean_error == pytest.approx(
        {k: abs(e) for k, e in errors.items() if e is not None}
    )
