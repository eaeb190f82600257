"""What presets say: their links, how long collectives take on them and what their tuners choose."""

from __future__ import annotations

import pytest

import chakrakit as ck
from support.commands import data
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
