"""What a report says of ranks that were not run, and of parameters that no module holds."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from chakrakit.commands import group
from chakrakit.sources.capture import capture_command

ALIKE = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
w = torch.nn.Parameter(torch.randn(64, 64, device="cuda"))
opt = torch.optim.SGD([w], lr=.1)
for _ in range(2):
    (torch.randn(8, 64, device="cuda") @ w).sum().backward()
    dist.all_reduce(w.grad)
    opt.step()
    opt.zero_grad()
"""


def test_the_ranks_that_were_run_are_named(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ALIKE)
    report = capture_command(["python", str(script)], None, ranks=16, device="h100")
    assert report.ran == [0, 7, 15]
    shown = CliRunner().invoke(
        group,
        ["capture", "--ranks", "16", "-o", str(tmp_path / "out"), "--", "python", str(script)],
    )
    assert "ran ranks 0, 7, 15 (3); the others are taken to be like these" in shown.output


@pytest.mark.parametrize("ranks", [1, 2])
def test_nothing_is_said_where_all_were(tmp_path, ranks):
    script = tmp_path / "train.py"
    script.write_text(ALIKE)
    arguments = [
        "capture",
        "--ranks",
        str(ranks),
        "-o",
        str(tmp_path / "out"),
        "--",
        "python",
        str(script),
    ]
    assert "taken to be like" not in CliRunner().invoke(group, arguments).output


def test_parameters_of_no_module_are_those_that_the_optimizer_updates(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ALIKE)
    report = capture_command(["python", str(script)], None, ranks=1, device="h100")
    assert report.kinds[0].parameters == 64 * 64
