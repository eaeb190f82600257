"""What somebody meets who types a command for the first time: its help, its spelling, its refusals."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.commands import COMMANDS, GROUPS
from chakrakit.passes.base import split
from support.commands import chakra, data, succeeded

SMALL = ("--model", "gpt3-125m", "--dp", "2", "--seq", "128", "--global-batch", "2")
FEW: Any = (
    ("gpt3-125m", 8, "dgx-h100"),
    {
        "seq": 512,
        "tp": [1, 2],
        "pp": [1],
        "data": ["ddp"],
        "micro_batch": [1],
        "recompute": ["none"],
    },
)
"""A search among a handful of plans."""
SERVED = ("serve", "--model", "gpt3-125m", "--machine", "dgx-h100", "--requests")


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    succeeded("generate", *SMALL, "-o", tmp_path / "w")
    return tmp_path / "w"


def test_commands_are_listed_in_groups_that_fit_a_terminal() -> None:
    listed = succeeded("--help")
    for heading, commands in GROUPS.items():
        assert f"{heading}:" in listed
        for name, text in commands.items():
            line = next(s for s in listed.splitlines() if s.split()[:1] == [name])
            assert line.endswith(text)  # unbroken


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_two_examples_that_its_own_options_take(name: str) -> None:
    command = import_module(f"chakrakit.commands.{name}").command
    text = "\n".join(command.examples).replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    assert len(lines) >= 2
    for program, called, *words in lines:
        assert (program, called) == ("chakra", name)
        command.make_context(name, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name: str) -> None:
    for line in succeeded(name, "--help").splitlines():
        assert len(line) <= 80, line


def test_help_with_very_many_options_explains_the_first_and_names_all() -> None:
    short, whole = succeeded("generate", "--help"), succeeded("generate", "--help-all")
    options = [o for o in import_module("chakrakit.commands.generate").command.params if o.opts]
    named = set(re.findall(r"--[\w-]+", short))
    assert {o.opts[-1] for o in options if o.opts[-1].startswith("--")} <= named
    assert len(short.splitlines()) < len(whole.splitlines()) / 2
    assert "Width of the residual stream." in whole
    assert "--help-all" not in succeeded("simulate", "--help")


@pytest.mark.parametrize(
    ("braces", "colon"),
    [
        ("edit{scale=0.5, names=[gemm, mm]}", "edit:scale=0.5,names=[gemm,mm]"),
        ('edit{scale=2, names="aten::mm$"}', 'edit:scale=2,names="aten::mm$"'),
        ("vllm{max-num-seqs=8}", "vllm:max-num-seqs=8"),
        ("compact", "compact"),
    ],
)
def test_a_colon_does_what_braces_do_and_needs_no_quotes(braces: str, colon: str) -> None:
    assert split(colon) == split(braces)


def test_requests_and_engines_may_be_spelled_with_a_colon() -> None:
    braces = data(
        *SERVED, "poisson{rate=9,n=5,prompt=64,output=4}", "--engine", "vllm{block-size=32}"
    )
    colon = data(*SERVED, "poisson:rate=9,n=5,prompt=64,output=4", "--engine", "vllm:block-size=32")
    assert colon == braces
    assert colon["ttft_ms"]["p90"] <= colon["ttft_ms"]["p95"] <= colon["ttft_ms"]["p99"]


@pytest.mark.slow
def test_a_machine_is_known_in_any_case(workload: Path) -> None:
    assert data("simulate", workload, "--machine", "DGX-H100:1") == data(
        "simulate", workload, "--machine", "dgx-h100:1"
    )


def test_a_run_does_not_replace_its_workload(workload: Path) -> None:
    before = {f.name: f.read_bytes() for f in workload.iterdir()}
    done = chakra("simulate", workload, "--machine", "dgx-h100", "-o", f"{workload}/../w")
    assert (done.exit_code, "would replace the workload" in done.stderr) == (2, True)
    assert {f.name: f.read_bytes() for f in workload.iterdir()} == before


def test_a_simulation_opens_with_its_figures_and_folds_equal_ranks(tmp_path: Path) -> None:
    succeeded(
        "generate",
        *SMALL[:2],
        "--dp",
        "16",
        *SMALL[4:6],
        "--global-batch",
        "16",
        "-o",
        tmp_path / "w",
    )
    lines = succeeded("simulate", tmp_path / "w", "--machine", "dgx-h100:2").splitlines()
    assert re.match(r"[\d.]+ ms \([\d.]+–[\d.]+\) on dgx-h100", lines[0])
    assert any(", MFU " in line for line in lines[1:3])
    assert any("J" in line and "energy" in line for line in lines[1:4])
    assert [line for line in lines if line.startswith("0–15 (16) ")]
    assert len(lines) <= 24


def test_info_says_what_the_traces_are_of(workload: Path) -> None:
    first = succeeded("info", workload).splitlines()[0]
    assert first == "model gpt3-125m · plan dp 2 · batch 2 sequences of 128 tokens"
    assert data("info", workload)["steps"] == 1


def test_capture_without_a_place_for_its_traces_is_refused_before_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('it ran')\n")
    done = chakra("capture", "--ranks", "2", "--", "python", script)
    assert (done.exit_code, "give -o OUT" in done.stderr) == (2, True)


def test_a_report_of_nsight_systems_is_refused_with_the_command_that_exports_it(
    tmp_path: Path,
) -> None:
    report = tmp_path / "step.nsys-rep"
    report.write_bytes(b"\x00" * 64)
    for words in (("link", report, "-o", tmp_path / "run"), ("analyze", report)):
        done = chakra(*words)
        assert done.exit_code == 2
        assert "nsys export --type sqlite -o step.sqlite step.nsys-rep" in done.stderr


def test_a_policy_that_serves_nobody_fails(tmp_path: Path) -> None:
    policy = tmp_path / "own.py"
    policy.write_text(
        "class Nobody:\n    def admit(self, request, engine):\n        return False\n"
    )
    stream = "poisson:rate=9,n=5,prompt=64,output=4"
    done = chakra(*SERVED, stream, "--policy", f"{policy}:Nobody")
    assert done.exit_code == 2, done.stdout


@pytest.mark.slow
def test_an_interrupted_search_keeps_the_best_so_far() -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done == total:
            raise KeyboardInterrupt

    found = ck.search(*FEW[0], **FEW[1], progress=interrupt).result
    assert found.stopped
    assert found.evaluated >= 1
    with pytest.raises(KeyboardInterrupt):  # nothing was simulated while the bounds are made
        ck.search(*FEW[0], **FEW[1], progress=_interrupt_at_once)


def _interrupt_at_once(_done: int, _total: int | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_the_progress_of_a_search_moves_until_its_end() -> None:
    steps: list[tuple[int, int]] = []
    ck.search(*FEW[0], **FEW[1], progress=lambda d, n: steps.append((d, n)) if n else None)
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert sum(done == total for done, total in steps) == 1
