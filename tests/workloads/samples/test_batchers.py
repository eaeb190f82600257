"""Batchers: every sample once, no limit broken, and as many micro-batches for everybody."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Decoder, Lengths, Plan, Samples, Step, Workload
from chakrakit.workloads.samples import Deal, deal, read_samples

MODEL = Decoder(layers=1, hidden=32, heads=4, vocab=64)


def dealt(dp: int = 2, quota: int = 2, steps: int = 2, micro: int = 2, **samples: object) -> Deal:
    step = Step(
        seq=64,
        global_batch=dp * quota * micro,
        micro_batch=micro,
        steps=steps,
        samples=Samples(**samples),  # type: ignore[arg-type]
        lengths=Lengths(distribution="lognormal", mean=20, sigma=0.8),
    )
    return deal(Workload(model=MODEL, plan=Plan(dp=dp), step=step))


def written(folder: Path, lengths: list[int]) -> str:
    file = folder / "samples.csv"
    file.write_text("length,modality\n" + "".join(f"{n},text\n" for n in lengths))
    return str(file)


@pytest.mark.parametrize("batcher", ["fixed", "tokens", "power", "online", "best-fit"])
def test_samples_are_never_repeated_and_limits_hold(batcher: str) -> None:
    one = dealt(dp=3, quota=2, steps=3, batcher=batcher, budget=160, power=1.5, longest_batch=2)
    numbers = [s.number for b in one.batches() for s in b.samples]
    assert len(numbers) == len(set(numbers))
    assert [len(step) for replica in one.of for step in replica] == [2] * 9
    for batch in one.batches():
        if batcher in ("tokens", "power", "online"):
            assert batch.rows * batch.length <= 160
        if batcher == "power":
            assert batch.rows * batch.length**1.5 <= 2 * 64**1.5 * (1 + 1e-9)
        if batcher == "best-fit":
            assert batch.own <= 64


@pytest.mark.parametrize("batcher", ["fixed", "tokens", "online", "best-fit"])
def test_a_whole_file_is_emitted_once_and_evenly(batcher: str, tmp_path: Path) -> None:
    for seed in range(20):
        rng = Random(seed)
        dp = rng.choice([1, 2, 3, 4])
        lengths = [rng.randint(1, 64) for _ in range(rng.randint(4 * dp, 90))]
        file = written(tmp_path, lengths)
        one = dealt(dp, rng.choice([1, 2]), 0, batcher=batcher, sample_file=file, budget=200)
        emitted = sorted(s.number for b in one.batches() for s in b.samples)
        assert emitted == list(range(len(lengths)))
        assert len({len(step) for replica in one.of for step in replica}) == 1


def test_like_lengths_are_padded_less_than_samples_in_order() -> None:
    def padding(batcher: str) -> float:
        batches = list(dealt(dp=4, steps=8, batcher=batcher, budget=128).batches())
        return 1 - sum(b.own for b in batches) / sum(b.rows * b.length for b in batches)

    assert padding("tokens") < padding("online") < padding("fixed") < 0.6
    assert padding("best-fit") < padding("fixed")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tokens\n5\n", "1: no column length; the first line should name length"),
        ("length\nmany\n", "2: length should be a whole number"),
        ("length\n0\n", "2: a sample of 0; lengths go from 1"),
        ("length,cost\n4,-1\n", "2: cost -1.0; it is a factor"),
        ("length,weight\n4,1\n", "2: a sample has no 'weight'"),
        ('{"length": 4}\n{"length": \n', "2: not a sample in JSON"),
        ("length\n", "it has no samples"),
    ],
)
def test_files_that_are_not_samples_are_refused_by_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "s").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_samples(str(tmp_path / "s"))
