"""What recordings kept with the tests link to, column by column."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.sources import raw_at
from chakrakit.sources.xla import parse_hlo
from chakrakit.sources.xla.program import traces_of
from fuzz.formats.recordings import RECORDINGS as FORMATS
from support.damaged import compare_outcomes, damages
from support.kept_results import compare, of_set
from support.paths import DATA
from support.recorded import linked

RECORDINGS = ["cnn_ddp_2", "gpt_pp_2", "gpt_fsdp_tp_4", "two_streams", "mlp_ddp_nccl_1", "moe_tiny"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_kept_links_of_pairs(name: str) -> None:
    run = linked(name)
    figures = of_set(run)
    figures |= {f"times {r}": [run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks}
    compare(f"linked-{name}", figures | {"card": _plain_card(run)})


DEVICE = ["graphed", "lstm", "sampling", "moe_capacity"]
OTHER_DEVICE = sorted({file.name for file in (DATA / "h200").iterdir()} - {*DEVICE})


@pytest.mark.parametrize(
    "name", [*DEVICE, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_DEVICE)]
)
def test_kept_links_of_device_recordings(name: str) -> None:
    run, report = ck.link(DATA / "h200" / name)
    compare(f"linked-{name}", of_set(run) | {"report": _without_times(report.to_dict())})


def test_kept_links_of_other_tracers() -> None:
    for name, file in (("hta", DATA / "hta" / "nccl_parser_config.json.gz"), ("xla", DATA / "xla")):
        run, report = ck.link(file)
        compare(f"linked-{name}", of_set(run) | {"report": _without_times(report.to_dict())})


def _plain_card(run: ck.Run) -> dict[str, object]:
    return {k: v for k, v in run.card.extra.items() if k in ("recorded", "recording", "steps")}


def _without_times(report: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in report.items() if k not in ("seconds", "files", "inputs", "output")}


SLOWER = {"kineto", "observer", "xplane"}
"""Of these, a damaged file takes a tenth of a second."""


@damages(25, 200)
@pytest.mark.parametrize("name", [f.name for f in FORMATS if f.name not in SLOWER])
def test_kept_outcomes_of_damaged_recordings(name: str, numbers: range, tmp_path: Path) -> None:
    """What each format's files are read as, and what is said to those that were damaged."""
    compare_outcomes(name, tmp_path, _module if name.startswith("hlo") else _opened, numbers)


@damages(6, 60)
@pytest.mark.parametrize("name", sorted(SLOWER))
def test_kept_outcomes_of_slower_damaged_recordings(
    name: str, numbers: range, tmp_path: Path
) -> None:
    """The same of formats whose files are large."""
    compare_outcomes(name, tmp_path, _opened, numbers)


def _opened(folder: Path) -> object:
    raw = raw_at(folder)
    if raw is None:
        return "not a recording or workload"
    if not raw.recordings:
        return of_set(raw.traces())
    run, report = ck.link(folder)
    times = {f"times {r}": [run.start(r).tolist(), run.end(r).tolist()] for r in run.ranks}
    return of_set(run) | times | {"report": _without_times(report.to_dict())}


def _module(folder: Path) -> object:
    return of_set(traces_of(parse_hlo((folder / "module").read_bytes(), "module")))
