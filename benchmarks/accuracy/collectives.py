"""Collectives of NCCL within a node: fitted on 2 and 8 GPUs, tried on 4 and on sizes left out."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, percent, spread, table

from chakrakit.machines.fabric import span_of
from chakrakit.machines.library import Library, Measurement, Span, choose, fit_library, predict

MACHINES = {
    "a100_sxm": "dgx-a100",
    "h100_sxm": "dgx-h100",
    "h200_sxm": "dgx-h200",
    "b200_sxm": "dgx-b200",
    "gb200_sxm": "gb200-nvl72",
    "gb200": "gb200-nvl72",
    "l40s": "l40s-pcie",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
NAMES = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
MIB = 1 << 20


def measured(path: Path) -> dict[str, list[Measurement]]:
    """Half-precision rows by system, repeated ones as their median; NCCL 2.23 left out as the oldest."""
    found: dict[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for row in pq.read_table(path).to_pylist():
        if row["dtype"] == "half" and row["nccl_version"] != "2.23":
            key = (row["system"], NAMES[row["op"]], row["gpus"], row["bytes"])
            found[key].append(row["latency_us"])
    systems: dict[str, list[Measurement]] = defaultdict(list)
    for (system, *key), times in sorted(found.items()):
        systems[system].append(Measurement(*key, float(np.median(times)) * 1e-6))
    return systems


def errors(library: Library, rows: list[Measurement], spans: dict[int, Span]) -> list[float]:
    """Signed shares by which predictions miss."""
    return [predict(library, r, spans[r.members]) / r.seconds - 1 for r in rows]


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    systems = {
        system: rows
        for name in ("collectives.parquet", "collectives_2_8.parquet")
        for system, rows in measured(need(data, "nccl", name)).items()
    }
    main, worst = [], []
    for system, rows in systems.items():
        if system not in MACHINES:
            continue
        machine = machine_of(MACHINES[system])
        spans = {n: span_of(machine, np.arange(n)) for n in {r.members for r in rows}}
        assert machine.library is not None
        main += _lines(system, machine.library, rows, spans)
        missed = zip(errors(machine.library, rows, spans), rows, strict=True)
        worst += [
            (e, system, r, spans[r.members], machine.library) for e, r in missed if r.size >= MIB
        ]
    worst.sort(key=lambda w: -abs(w[0]))
    return "\n\n".join(
        [TEXT, table(HEADS, main), "Worst from 1 MiB up:", table(WORST, _worst(worst[:8]))]
    )


def _lines(
    system: str, library: Library, rows: list[Measurement], spans: dict[int, Span]
) -> list[list[str]]:
    def line(what: str, used: Library, part: list[Measurement]) -> list[str]:
        small = errors(used, [r for r in part if r.size < MIB], spans)
        large = errors(used, [r for r in part if r.size >= MIB], spans)
        return [system, what, *spread(small)[:2], *spread(large)]

    four = [r for r in rows if r.members == 4]
    ends = [r for r in rows if r.members != 4]
    even = [r for r in ends if is_even(r)]
    other = fit_library(library, even, lambda n: spans[n])
    left_out = [r for r in rows if not is_even(r)]
    return [
        line("2 and 8 GPUs: fitted", library, ends),
        *([line("**4 GPUs: not fitted**", library, four)] if four else []),
        line("**every other size, fitted on the rest of 2 and 8**", other, left_out),
    ]


def is_even(row: Measurement) -> bool:
    """Whether a row is fitted where every other size is left out."""
    return row.size.bit_length() % 2 == 1


def _worst(rows: list[tuple[float, str, Measurement, Span, Library]]) -> list[list[str]]:
    return [
        [
            f"{system}, {r.members} GPUs",
            f"{r.collective}, {r.size // MIB:,} MiB",
            " ".join(choose(library, r.collective, r.size, span)),
            f"{r.seconds * 1e6:,.1f}",
            percent(error, signed=True),
        ]
        for error, system, r, span, library in rows
    ]


HEADS = ("system", "rows", "< 1 MiB: median", "90 %", "≥ 1 MiB: median", "90 %", "worst")
WORST = ("where", "what", "chosen", "measured µs", "error")
TITLE = "Collectives within a node"
TEXT = """\
All-reduce, all-gather, reduce-scatter and all-to-all of 512 B to 512 MiB in half precision, measured
with nccl-tests (ai-dynamo/aiconfigurator 095f58a: NCCL 2.29.2, on A100 and L40S 2.27.3; repeated rows count
as their median, and NCCL 2.23 is left out). `chakra collective COLLECTIVE --machine PRESET --members N`
predicts them with dgx-a100, dgx-h100, dgx-h200, dgx-b200, l40s-pcie and rtx-pro-6000, whose constants are
fitted on 2 and 8 GPUs of each system; the rows in bold were not fitted. Repeated measurements differ by 1 %
in the median and by 8 % at the 90th percentile. Errors are absolute."""
