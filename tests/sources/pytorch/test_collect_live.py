"""The collector on real programs: one process, and two CPU ranks with gloo."""

from __future__ import annotations

import json
import sys

import pytest

import chakrakit
from chakrakit.errors import ChakraError
from chakrakit.sources.pytorch import collect_command
from chakrakit.sources.pytorch.collection import raw_folder
from chakrakit.trace.validation import validate
from support.paths import EXAMPLES

torch = pytest.importorskip("torch")
EXAMPLE = EXAMPLES / "collect_ddp" / "train.py"
pytestmark = pytest.mark.filterwarnings("ignore")


def _some_steps(c, steps):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        c.step()


def _train(steps, directory, window, **options):
    with chakrakit.collect(directory, steps=window, **options) as c:
        _some_steps(c, steps)
    return c


def test_a_window_of_a_running_program(tmp_path):
    c = _train(5, tmp_path / "run", (2, 4), two_pass=False)
    (rank,) = c.report.ranks
    assert [s["step"] for s in rank.steps] == [2, 3]
    assert rank.host_ops.linked == rank.host_ops.in_ > 100
    assert rank.edge_violations == 0
    assert validate(chakrakit.read(tmp_path / "run")).ok
    card = json.loads((raw_folder(tmp_path / "run") / "card_0.json").read_text())
    assert card["overhead"]["observer_ns"] > 0
    assert "step_ns" not in card["overhead"]  # one step after the first is too few to time


def test_steps_before_the_window_are_timed_without_recording(tmp_path):
    _train(9, tmp_path / "run", (6, 7))
    card = json.loads((raw_folder(tmp_path / "run") / "card_0.json").read_text())
    assert 0 < card["overhead"]["step_ns"] < 10**9


def test_a_card_of_an_earlier_recording_is_not_taken_for_this_one(tmp_path):
    raw = raw_folder(tmp_path / "run")
    raw.mkdir()
    (raw / "card_0.json").write_text("{}")
    with chakrakit.collect(tmp_path / "run", steps=(1, 2)) as c:
        assert not list(raw.iterdir())
        _some_steps(c, 3)
    assert c.report.ranks[0].host_ops.in_ > 100


def test_two_passes_take_times_from_before_the_observer(tmp_path):
    c = _train(7, tmp_path / "run", "4:6", two_pass=True)
    (rank,) = c.report.ranks
    assert [s["step"] for s in rank.steps] == [2, 3]
    assert rank.host_ops.linked == rank.host_ops.in_
    assert "order and name (two passes)" in rank.matched_by


def test_by_default_two_passes_are_recorded_and_bare_steps_timed(tmp_path):
    c = _train(13, tmp_path / "run", "10:12")
    (rank,) = c.report.ranks
    assert [s["step"] for s in rank.steps] == [8, 9]
    assert c.report.overhead["step_ns"] > 0  # and so the step is corrected
    run = chakrakit.read(tmp_path / "run")
    settings = run.card.settings["collector"]["settings"]
    assert settings["threads"] == torch.get_num_threads()
    assert settings["deterministic"] is False


def test_a_program_that_ends_inside_the_window_is_still_written(tmp_path):
    """Steps 0 to 2 train; what the profiler calls step 3 holds no work and is none."""
    c = _train(3, tmp_path / "run", (2, 9))
    assert [s["step"] for s in c.report.ranks[0].steps] == [2]


def test_modules_come_from_the_stack(tmp_path):
    _train(4, tmp_path / "run", (2, 3), stacks=True)
    trace = chakrakit.read(tmp_path / "run").trace(0)
    assert any("Linear" in m for m in set(trace.column("module", "").tolist()))


def _try_twice(act):
    """PyTorch's observer can crash beside gloo's own threads; one more try tells that from ours."""
    try:
        return act()
    except ChakraError:
        return act()


@pytest.mark.slow
@pytest.mark.parametrize("two_pass", [False, True])
def test_an_unchanged_program_on_two_ranks(tmp_path, two_pass):
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command = [*launch, "--standalone", str(EXAMPLE)]
    directory = tmp_path / "run"
    report = _try_twice(lambda: collect_command(command, directory, "4:6", two_pass=two_pass))
    assert [r.rank for r in report.ranks] == [0, 1]
    for rank in report.ranks:
        assert rank.host_ops.linked == rank.host_ops.in_
        assert rank.collectives["ALL_REDUCE"] == 4  # DDP's one bucket and the loss, twice
        assert rank.edge_violations == 0
    assert report.groups == {"1": [0, 1]}
    assert validate(chakrakit.read(directory)).ok
