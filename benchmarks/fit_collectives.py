"""Fits the libraries of presets on collectives: `python benchmarks/fit_collectives.py DATA [SYSTEM…]`.

DATA holds `nccl/collectives_2_8.parquet` (nccl-tests on 2 and 8 GPUs of a node, ai-dynamo/aiconfigurator
095f58a). For each system it prints the errors of every other size, fitted on the rest, and then the
`library` of the preset's file, fitted on all rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq

from chakrakit import load_machine
from chakrakit.machines.fabric import Machine, span_of
from chakrakit.machines.library import Library, Measurement, fit_library, predict

PRESETS = {"b200_sxm": "dgx-b200", "l40s": "l40s-pcie", "rtx_pro_6000_server": "rtx-pro-6000"}
KINDS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
LARGE = 1 << 20


def main(data: str, *systems: str) -> int:
    """Prints errors and constants."""
    table = pq.read_table(Path(data) / "nccl" / "collectives_2_8.parquet").to_pylist()
    for system in systems or PRESETS:
        machine = load_machine(PRESETS[system])
        rows = [
            Measurement(KINDS[r["op"]], r["gpus"], r["bytes"], r["latency_us"] * 1e-6)
            for r in table
            if r["system"] == system
        ]
        print(f"{system}: every other size, fitted on the rest: {_held_out(machine, rows)}")
        print(_yaml(_fitted(machine, rows)))
    return 0


def _fitted(machine: Machine, rows: list[Measurement]) -> Library:
    assert machine.library is not None
    return fit_library(machine.library, rows, lambda n: span_of(machine, np.arange(n)))


def _held_out(machine: Machine, rows: list[Measurement]) -> str:
    """The median error of the sizes that were not fitted, from 1 MiB."""
    sizes = sorted({r.size for r in rows})
    library = _fitted(machine, [r for r in rows if sizes.index(r.size) % 2 == 0])
    large = [r for r in rows if sizes.index(r.size) % 2 and r.size >= LARGE]
    errors = [
        abs(predict(library, r, span_of(machine, np.arange(r.members))) / r.seconds - 1)
        for r in large
    ]
    return f"median {np.median(errors):.1%} of {len(large)} from 1 MiB"


def _yaml(library: Library) -> str:
    """The fitted parts as they stand in a preset, with three digits."""
    lines = [f"  launch_us: {library.launch_us:.3g}"]
    for name in ("ll", "ll128", "simple", "exchange", "in_switch", "bridge"):
        part = getattr(library, name)
        if part is not None:
            fields = msgspec.structs.asdict(part).items()
            default = {f.name: f.default for f in msgspec.structs.fields(part)}
            shown = ", ".join(f"{k}: {_digits(v)}" for k, v in fields if v != default[k])
            lines.append(f"  {name}: {{{shown}}}")
    return "\n".join(lines)


def _digits(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(f"{value:.3g}"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
