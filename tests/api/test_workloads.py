"""Generated traces from Python: by name, by description, made when asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck

PLAN = {"dp": 2, "seq": 64, "global_batch": 2}


def test_a_workload_by_name_is_the_one_by_description() -> None:
    made = ck.generate(model="gpt3-125m", **PLAN)
    again = ck.generate(made.workload)
    assert again.figures == made.figures
    assert made.workload.plan.dp == 2


def test_traces_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    ck.generate(model="gpt3-125m", output=tmp_path / "w", **PLAN)
    assert ck.read(tmp_path / "w").ranks == (0, 1)


def test_memory_is_a_limit_and_a_machine_a_verdict() -> None:
    with pytest.raises(ck.ConfigError, match="GiB"):
        ck.generate(model="gpt3-125m", memory_gib=0.5, **PLAN)
    figures = ck.generate(model="gpt3-125m", machine="dgx-h100", **PLAN).figures
    assert (figures.fits, figures.has_bytes) == (True, 80_000_000_000)


def test_a_model_is_listed_or_described() -> None:
    assert ck.models("llama-3.1-8b").name == "llama3.1-8b"
    assert len({m.name for m in ck.models().models}) == len(ck.models().models)
