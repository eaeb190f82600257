"""Fits the libraries of presets on collectives: `python benchmarks/fit_collectives.py DATA [SYSTEM…]`.

DATA holds `nccl/collectives_2_8.parquet` (nccl-tests on 2 and 8 GPUs of a node, ai-dynamo/aiconfigurator
095f58a). For each system it prints the errors of every other size, fitted on the rest, and then the
`library` of the preset's file, fitted on all rows. `engine:SYSTEM` does the same for the all-reduce
kernels of vLLM and SGLang in CUDA graphs (`nccl/custom_allreduce_2_8.parquet`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq

from chakrakit import load_machine
from chakrakit.arrays import F64
from chakrakit.machines.fabric import Machine, span_of
from chakrakit.machines.library import (
    EngineKernels,
    Library,
    Measurement,
    descend,
    engine_cost,
    fit_library,
    predict,
)

PRESETS = {"b200_sxm": "dgx-b200", "l40s": "l40s-pcie", "rtx_pro_6000_server": "rtx-pro-6000"}
KINDS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
LARGE = 1 << 20
SMALL = 1 << 16
ENGINE_PRESETS = {"b200_sxm": "dgx-b200", "a100_sxm": "dgx-a100"}
_START = {"start_us": 5.0, "eager_us": 20.0, "peer_us": 0.1, "barrier_us": 4.0, "share": 0.6}
ENGINES = {
    "a100_sxm": EngineKernels(**_START, most=4 << 20),
    "b200_sxm": EngineKernels(**_START, most=1 << 20, two_shot=False),
}
"""Where fits start, and where engines stop using kernels of their own: on A100 vLLM above 4 MiB, on B200
above 1 MiB for two devices and above the one-shot kernel's limit for more."""
FITTED = ("start_us", "peer_us", "barrier_us", "share")


def main(data: str, *systems: str) -> int:
    """Prints errors and constants."""
    table = pq.read_table(Path(data) / "nccl" / "collectives_2_8.parquet").to_pylist()
    for system in systems or PRESETS:
        if system.startswith("engine:"):
            _print_engine(Path(data), system.removeprefix("engine:"))
            continue
        machine = load_machine(PRESETS[system])
        rows = [
            Measurement(KINDS[r["op"]], r["gpus"], r["bytes"], r["latency_us"] * 1e-6)
            for r in table
            if r["system"] == system
        ]
        print(f"{system}: every other size, fitted on the rest: {_held_out(machine, rows)}")
        print(_yaml(_fitted(machine, rows)))
    return 0


def _print_engine(data: Path, system: str) -> None:
    """The engines' constants, fitted on every other size and tested on the rest, then fitted on all."""
    rows = [
        r
        for r in pq.read_table(data / "nccl" / "custom_allreduce_2_8.parquet").to_pylist()
        if r["system"] == system and r["framework"] in ("vllm", "sglang")
    ]
    machine, first = load_machine(ENGINE_PRESETS[system]), ENGINES[system]
    eager = [r["latency_us"] for r in rows if r["mode"] == "eager" and r["bytes"] <= SMALL]
    graphs = [r for r in rows if r["mode"] == "graph"]
    sizes = sorted({r["bytes"] for r in graphs})
    kept = [r for r in graphs if sizes.index(r["bytes"]) % 2 == 0]
    tested = [r for r in graphs if sizes.index(r["bytes"]) % 2]
    errors = _engine_errors(machine, _engine(machine, first, kept), tested)
    print(f"{system}: every other size, fitted on the rest: median {np.median(np.abs(errors)):.1%}")
    engine = _engine(machine, first, graphs)
    engine = msgspec.structs.replace(engine, eager_us=float(np.median(eager)))
    fields = msgspec.structs.asdict(engine).items()
    print("  engine: {" + ", ".join(f"{k}: {_digits(v)}" for k, v in fields if k != "one_shot"))


def _engine(machine: Machine, first: EngineKernels, rows: list[dict[str, Any]]) -> EngineKernels:
    def of(x: F64) -> EngineKernels:
        figures = zip(FITTED, np.exp(x).tolist(), strict=True)
        return msgspec.structs.replace(first, **dict(figures))

    start = np.log([getattr(first, name) for name in FITTED])
    return of(descend(lambda x: np.log1p(_engine_errors(machine, of(x), rows)), start))


def _engine_errors(machine: Machine, engine: EngineKernels, rows: list[dict[str, Any]]) -> F64:
    """Predicted over measured, less 1, for the sizes at which the engine uses its own kernels."""
    out = []
    for r in rows:
        seconds = engine_cost(engine, r["bytes"], span_of(machine, np.arange(r["gpus"]))).seconds
        if np.isfinite(seconds):
            out.append(seconds * 1e6 / r["latency_us"] - 1)
    return np.array(out)


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
