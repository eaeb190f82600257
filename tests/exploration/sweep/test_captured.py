"""A study over a script's own flags: every point is captured and simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep import captured_of

PLAIN = {"capture": "python train.py --tp {tp}", "ranks": 64, "device": "h100"}


def test_axes_fill_the_places_of_the_command_or_are_its_ranks() -> None:
    made = captured_of(PLAIN, {"tp": 8, "ranks": 128})
    assert (made.capture, made.ranks, made.device) == ("python train.py --tp 8", 128, "h100")


def test_an_axis_without_a_place_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"axis 'pp' has no place \{pp\}"):
        captured_of(PLAIN, {"pp": 2})


@pytest.mark.slow
def test_a_study_of_a_script_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from chakrakit.exploration.sweep import read_study, sweep

    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "width = int(sys.argv[1])\n"
        "model = torch.nn.Linear(width, width)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "model(torch.randn(4, width)).sum().backward()\n"
        "optimizer.step()\n"
    )
    study = tmp_path / "study.yaml"
    study.write_text(
        f"name: widths\nworkload: {{capture: 'python {script} {{width}}', ranks: 2, device: h100}}\n"
        "axes: {width: [64, 128]}\nmachines: [dgx-h100]\nsimulate: {compute: roofline}\n"
    )
    done = sweep(read_study(study), tmp_path / "out", allow_programs=True)
    assert (done.points, done.done, done.failed) == (2, 2, 0)


def test_a_study_runs_no_program_unasked(tmp_path: Path) -> None:
    """A study may come from anybody: the error says what it would run, where, and how to let it."""
    from chakrakit.exploration.sweep import read_study, sweep

    study = tmp_path / "study.yaml"
    touched = tmp_path / "touched"
    study.write_text(
        "name: harmless\nworkload:\n"
        f'  capture: python -c \'open("{touched}", "w")\'\n  ranks: 1\nmachines: [dgx-h100]\n'
    )
    said = r"study\.yaml:3: .*would run the program .*touched.*--allow-programs"
    with pytest.raises(ConfigError, match=said):
        sweep(read_study(study), tmp_path / "out")
    assert not touched.exists()
    assert not (tmp_path / "out").exists()


def test_a_study_that_serves_cannot_name_a_policy_of_its_own(tmp_path: Path) -> None:
    from chakrakit.exploration.sweep import read_study, sweep

    study = tmp_path / "study.yaml"
    study.write_text(
        "workload: {serve: {model: llama3.1-8b, requests: poisson, policy: 'evil.py:Evil'}}\n"
        "machines: [dgx-h100]\n"
    )
    with pytest.raises(ConfigError, match="no setting 'policy'"):
        sweep(read_study(study), tmp_path / "out")


@pytest.mark.parametrize("axes", ["", "axes: {requests: ['evil.py:Evil']}\n"])
def test_a_study_that_serves_cannot_name_a_source_of_its_own(tmp_path: Path, axes: str) -> None:
    from chakrakit.exploration.sweep import read_study, sweep

    touched = tmp_path / "touched"
    (tmp_path / "evil.py").write_text(f"open({str(touched)!r}, 'w')\nclass Evil: pass\n")
    requests = "poisson" if axes else "evil.py:Evil"
    study = tmp_path / "study.yaml"
    study.write_text(
        f"workload: {{serve: {{model: llama3.1-8b, requests: '{requests}'}}}}\n{axes}machines: [dgx-h100]\n"
    )
    said = rf"study\.yaml:{2 if axes else 1}: .*names the program 'evil\.py:Evil', and a study runs none"
    with pytest.raises(ConfigError, match=said):
        sweep(read_study(study), tmp_path / "out")
    assert not touched.exists()
