"""Llama-3.1-8B on eight ranks: figures first, then traces."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import chakrakit
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generated
from chakrakit.workloads.models import model_named

workload = Workload(
    model=model_named("llama3.1-8b"),
    plan=Plan(tp=2, dp=4, data="fsdp"),
    step=Step(seq=4096, global_batch=16),
)
made = generated(workload)
figures = dry_run(made)
print(f"{figures.parameters:,} parameters, {figures.flops_total:.4g} FLOPs per step")
for one in figures.per_rank[0].comm:
    print(f"{one.count:>6} × {one.type} over {one.group} ({one.ranks} ranks): {one.bytes:,} bytes")

out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "llama"
chakrakit.write(made.traces(), out)
print(f"{chakrakit.read(out)!r} in {out}")
