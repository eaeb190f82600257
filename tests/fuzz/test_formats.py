"""Mutated files of every format end in success or in an error on purpose."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chakrakit import TraceSet
from chakrakit.machines.files import MACHINE_FORMATS
from chakrakit.serving.requests.foreign import REQUEST_FORMATS
from chakrakit.sources.foreign import WORKLOADS, WorkloadFormat, workload_of
from chakrakit.sources.inputs import RECORDINGS, recognise
from chakrakit.sources.pytorch.read import read_head
from chakrakit.trace.codecs.formats import SUFFIXES
from fuzz.formats import FORMATS
from fuzz.fuzz import run
from fuzz.fuzz_format import Format
from fuzz.mutation import mutate_json, mutate_words
from fuzz.worker import Bench

RUNS = 8


@pytest.mark.slow
def test_every_format_stands_some_mutations() -> None:
    """`make fuzz` runs many more."""
    found = run(list(FORMATS), 0, RUNS)
    assert [(f["format"], f["at"], f["kind"], f["where"]) for f in found] == []


def test_every_format_that_a_reader_registers_is_fuzzed(tmp_path: Path) -> None:
    """The readers' own registries look at the fuzzers' seeds: what none of them holds has no fuzzer."""
    found: set[object] = set()
    for number, format_ in enumerate(
        f for f in FORMATS.values() if f.share < 1 and "replay" not in f.name
    ):
        folder = tmp_path / str(number) / "in"
        folder.mkdir(parents=True)
        format_.seed(folder)
        files = [path for path in folder.rglob("*") if path.is_file()]
        found |= {recognise(path).format for path in files}
        found |= {w.name for path in files if (w := workload_of(read_head(path))) is not None}
        heads = [path.read_bytes()[: 1 << 16] for path in files]
        registered = (*MACHINE_FORMATS, *REQUEST_FORMATS)
        found |= {m for head in heads for m in registered if m.recognises(head)}
    missing = {r.format for r in RECORDINGS} | {w.name for w in WORKLOADS}
    missing |= {*MACHINE_FORMATS, *REQUEST_FORMATS}
    assert missing - found == set(), (
        "a format without a fuzzer: give it an entry in tests/fuzz/formats"
    )


def test_every_form_of_a_trace_is_fuzzed() -> None:
    assert {suffix.removeprefix(".") for suffix in (*SUFFIXES, ".feeder.json")} <= {
        name.replace("-", ".") for name in FORMATS
    }
    assert {"et-gz", "et-zst"} <= set(FORMATS)


@pytest.mark.slow
def test_a_format_nobody_fuzzes_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unknown = WorkloadFormat(
        "of tomorrow", lambda head: head.startswith(b"tomorrow"), lambda *_: TraceSet([])
    )
    monkeypatch.setattr("fuzz.test_formats.WORKLOADS", (*WORKLOADS, unknown))
    with pytest.raises(AssertionError, match="without a fuzzer"):
        test_every_format_that_a_reader_registers_is_fuzzed(tmp_path)


def test_the_same_number_gives_the_same_input() -> None:
    valid = b'{"a": [1, 2.5, "x"], "b": {"c": null}}'
    some = [mutate_json(Random(i), valid) for i in range(50)]
    assert some == [mutate_json(Random(i), valid) for i in range(50)]
    assert len(set(some)) > 40


def test_what_is_no_error_on_purpose_is_found(tmp_path: Path) -> None:
    """A reader that divides by what a file says."""

    def seed(folder: Path) -> None:
        (folder / "number").write_text("7")

    def divide(folder: Path) -> None:
        1 / float((folder / "number").read_text())

    bench = Bench(Format("divide", seed, {"*": mutate_words}, divide), tmp_path, lambda _: None)
    kinds = {found["kind"] for n in range(300) if (found := bench.case(n))}
    assert {"ValueError", "ZeroDivisionError"} <= kinds
    assert (tmp_path / "in" / "number").read_text() == "7"


@pytest.mark.slow
def test_memory_beyond_the_limit_is_found(tmp_path: Path) -> None:
    """A reader that takes 600 MB for a file of a few bytes, after one that took as much and gave it back."""

    def seed(folder: Path) -> None:
        (folder / "number").write_text("7")

    def fill(folder: Path) -> None:
        taken = bytearray(600 << 20 if (folder / "number").read_text() != "7" else 1)
        taken[::4096] = b"x" * len(taken[::4096])

    bench = Bench(Format("fill", seed, {"*": lambda _rng, _: b"8"}, fill), tmp_path, lambda _: None)
    for number in range(2):
        found = bench.case(number)
        assert found is not None
        assert found["kind"] == "memory"
