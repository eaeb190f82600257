"""A search over a script's own flags: every combination captured, the best one told with its reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.exploration.search import search_script

SCRIPT = """
import sys, torch
width = int(sys.argv[1])
if width > 4096:
    raise ValueError("too wide")
model = torch.nn.Linear(width, width)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    model(torch.randn(4, width)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("python t.py {tp} {pp}", {"tp": [1]}, r"has a place \{pp\}, and no axis is called 'pp'"),
        ("python t.py", {"tp": [1]}, r"axis 'tp' has no place \{tp\}"),
        ("python t.py {tp}", {"tp": []}, "flag 'tp' has no value to choose from"),
    ],
)
def test_flags_and_places_must_belong_together(
    command: str, given: dict[str, list[int]], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        search_script(command, [2], "dgx-h100", flags=given)


@pytest.mark.slow
def test_the_shortest_step_wins_and_what_cannot_run_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = ck.search(
        None,
        2,
        "dgx-h100",
        capture=f"python {script} {{width}}",
        compute="roofline",
        output=tmp_path / "best",
        width=[4096, 64, 8192],
    )
    told = found.result
    assert (told.best.flags, [r.flags for r in told.runners_up]) == (
        {"width": 64},
        [{"width": 4096}],
    )
    assert [(r.flags, r.error.splitlines()[-1]) for r in told.refused] == [
        ({"width": 8192}, "ValueError: too wide")
    ]
    assert told.best.step_ns < told.runners_up[0].step_ns
    assert (told.evaluated, told.over_memory) == (2, 0)
    again = ck.simulate(tmp_path / "best", machine=told.machine, compute="roofline")
    assert again.summary.makespan_ns == told.best.step_ns
