"""`chakra sweep` from the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import chakrakit as ck
from chakrakit.commands import main
from support.paths import EXAMPLES

EXAMPLE = EXAMPLES / "sweep_llama.yaml"


def run(capfd, *arguments: object) -> str:
    main([str(a) for a in arguments], standalone_mode=False)
    return capfd.readouterr().out


def small_example(folder: Path) -> Path:
    """The example with a small model and few plans; the rest as it stands."""
    text = EXAMPLE.read_text()
    for old, new in (
        ("model: llama3.1-8b", "model: {base: llama3.1-8b, layers: 2}"),
        ("seq: 4096", "seq: 256"),
        ("plan.tp: [1, 2, 4, 8]", "plan.tp: [1, 8]"),
        ("plan.pp: [1, 2, 4, 8]", "plan.pp: [1]"),
        ("[none, selective, full]", "[none]"),
        ("micro_batch: [1, 2, 4]", "micro_batch: [2, 4]"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = folder / "study.yaml"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_the_example_runs_and_is_reported(capfd, tmp_path: Path) -> None:
    study = small_example(tmp_path)
    found = json.loads(run(capfd, "sweep", study, "--json", "--jobs", 1))
    folder = tmp_path / "study.sweep"
    assert found == {
        "points": 24,
        "done": 24,
        "failed": 0,
        "over_memory": 0,
        "reused": 0,
        "skipped": 8,
        "table": str(folder / "table.parquet"),
    }
    assert pq.read_table(found["table"]).num_rows == 24
    page = (folder / "report.html").read_text()
    for heading in (
        "Fastest that fit",
        "Step time over plan.tp",
        "plan.tp by plan.data",
        "Memory of a rank against step time",
        "Energy of a step against step time",
    ):
        assert heading in page
    assert not re.search(r"(src|href)=[\"']http", page)
    told = run(capfd, "sweep", study)
    assert "24 points: 24 done, 0 failed, 24 from earlier, 8 cannot be" in told
    assert "fastest that fit" in told


def test_the_whole_example_can_be(capfd) -> None:
    from chakrakit.exploration.sweep import grid, read_study

    made = grid(read_study(EXAMPLE))
    assert (len(made.points), made.skipped) == (1128, 24)


def test_a_mistake_ends_with_two(capfd, tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("workload: {model: llama3.1-8b}\nmachines: []\n")
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", str(study)])
    assert stopped.value.code == 2
    assert "study.yaml:2: machines is empty; give at least one value" in capfd.readouterr().err
    assert not (tmp_path / "study.sweep").exists()


def test_an_unknown_engine_ends_with_two(capfd, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", str(small_example(tmp_path)), "--engine", "slurm"])
    assert stopped.value.code == 2
    assert "no engine 'slurm'; there are local, ray, dask" in capfd.readouterr().err


def test_a_study_that_says_nothing_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("machines: [dgx-h100]\n")
    with pytest.raises(ck.ConfigError, match=r"study\.yaml"):
        ck.sweep(study)
    assert not (tmp_path / "study.sweep").exists()


def test_a_study_in_which_nothing_fits_says_so(capfd, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, memory: 1 MB}\n"
        "network: [{topology: switch, size: 2, bandwidth: 1 GB/s}]\n"
    )
    (tmp_path / "study.yaml").write_text(
        "workload: {model: gpt3-125m, step: {seq: 64, global_batch: 2}}\nranks: 2\n"
        f"axes: {{plan.tp: [1, 2]}}\nmachines: [{tmp_path / 'small.yaml'}]\n"
    )
    told = run(capfd, "sweep", tmp_path / "study.yaml", "-o", tmp_path / "out", "--jobs", 1)
    assert "NO POINT FITS: the smallest (plan.tp 2, " in told
    assert "2 points: 2 done, 0 failed, 0 from earlier, 0 cannot be; 2 do not fit" in told
    again = run(capfd, "sweep", tmp_path / "study.yaml", "-o", tmp_path / "out", "--json")
    assert json.loads(again)["over_memory"] == 2
