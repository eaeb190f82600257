"""What presets say: their links, how long collectives take on them and what their tuners choose."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from support.commands import data
from support.damaged import outcomes, printed
from support.kept_results import compare

PRESETS = [m.name for m in ck.list_machines().presets]
SIZES = "1KiB,64KiB,3MiB,256MiB"
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"]


@pytest.mark.parametrize("name", PRESETS)
def test_kept_collectives_of_presets(name: str) -> None:
    figures = {"machine": data("machines", name)}
    for kind in KINDS:
        for members in (2, 8):
            words = ("collective", kind, "--machine", f"{name}:8", "--members", members)
            figures[f"{kind} {members}"] = data(*words, "--sizes", SIZES)
    compare(f"machine-{name}", figures)


NODES = "nccl-topology hwloc nvidia-smi rocm-smi rocm-smi-json amd-smi amd-smi-json simai-topology"
READ = {
    **dict.fromkeys(NODES.split(), "machines {in}/node"),
    **dict.fromkeys(
        ("machine", "machine-graph", "infragraph", "astra-network"), "machines {in}/m.yaml"
    ),
    "microbenchmarks": "calibrate {in}/micro.json -o {out}",
    "nccl-tests": "calibrate --nccl-tests {in}/all_reduce.log {in}/all_gather.log -o {out}",
    "aiconfigurator": "calibrate {in}/tables -o {out}",
}


@pytest.mark.parametrize("name", READ)
def test_kept_outcomes_of_damaged_descriptions(name: str, tmp_path: Path) -> None:
    """What each file that describes or measures a machine is read as, and what is said to damaged ones."""
    compare(f"damaged-{name}", outcomes(name, tmp_path, printed(READ[name]), 30))
