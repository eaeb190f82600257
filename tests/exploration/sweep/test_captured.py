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
    done = sweep(read_study(study), tmp_path / "out")
    assert (done.points, done.done, done.failed) == (2, 2, 0)
