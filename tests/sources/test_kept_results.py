"""What recordings kept with the tests link to, column by column."""

from __future__ import annotations

import pytest

import chakrakit as ck
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


@pytest.mark.parametrize("name", ["graphed", "lstm", "sampling", "moe_capacity"])
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
