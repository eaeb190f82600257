"""Which of two machines is faster: the presets' order against measured and published figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, percent, table
from collectives import MACHINES, measured
from products import TABLES, _us
from training import TrainingRow, training_errors

import chakrakit as ck
from chakrakit.machines.device import packaged_profile

TIE = 0.05
"""Machines closer than this have no order: repeated measurements differ by as much."""
SHAPES = {
    "products of 64 rows and less": (0, 64),
    "products of 4,096 rows and more": (4096, 1 << 20),
}
SIZE = 64 << 20
"""Bytes of the collectives, on 8 GPUs."""
LLM_FOUNDRY = ("MPT-1b", "MPT-3b", "MPT-7b", "MPT-13b")


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    workloads = [*_products(data), *_collectives(data), *_training(data)]
    lines, agree, pairs = [], 0, 0
    for name, times in workloads:
        good, asked, wrong = _agreement(times)
        agree, pairs = agree + good, pairs + asked
        by_truth = " < ".join(sorted(times, key=lambda m: times[m][0]))
        lines.append([name, by_truth, f"{good} of {asked}", ", ".join(wrong) or "–"])
    text = f"{TEXT} **{agree} of {pairs} pairs** agree ({percent(agree / pairs)})."
    return "\n\n".join([text, table(HEADS, lines)])


Times = dict[str, tuple[float, float]]
"""By machine: measured and predicted time."""


def _agreement(times: Times) -> tuple[int, int, list[str]]:
    """Pairs in the right order, pairs that have one, and those in the wrong order."""
    good, asked, wrong = 0, 0, []
    for a, b in combinations(sorted(times), 2):
        truth, said = (np.log(times[a][k] / times[b][k]) for k in (0, 1))
        if abs(truth) < TIE:
            continue
        asked += 1
        right = truth * said > 0 or abs(said) < TIE / 2
        good += right
        wrong += (
            [] if right else [f"{a} and {b} (measured {np.exp(truth):.2f}, {np.exp(said):.2f})"]
        )
    return good, asked, wrong


def _products(data: Path) -> Iterator[tuple[str, Times]]:
    """Sums over the shapes that every table has."""
    by_card = {}
    for card, name, preset, _ in TABLES:
        rows = pq.read_table(need(data, "kernels", name)).to_pylist()
        by_card[card] = preset, {(r["m"], r["n"], r["k"]): r["latency_us"] for r in rows}
    shared = set.intersection(*(set(rows) for _, rows in by_card.values()))
    for title, (least, most) in SHAPES.items():
        shapes = sorted(s for s in shared if least <= s[0] <= most)[::5]
        times = {}
        for preset, rows in by_card.values():
            device = machine_of(preset).devices[0]
            profile = packaged_profile(device.profile)
            said = sum(_us(profile, device, *s) for s in shapes)
            times[preset] = sum(rows[s] for s in shapes), said
        yield f"{title} ({len(shapes)} shapes)", times


def _collectives(data: Path) -> Iterator[tuple[str, Times]]:
    tables = ("collectives.parquet", "collectives_2_8.parquet")
    rows = [
        (MACHINES[system], r)
        for name in tables
        for system, part in measured(need(data, "nccl", name)).items()
        for r in part
        if r.size == SIZE and r.members == 8
    ]
    for kind in sorted({r.collective for _, r in rows}):
        times = {}
        for preset, r in rows:
            if r.collective == kind:
                said = ck.collective(kind, machine_of(preset), 8, [SIZE]).rows[0].time_us
                times[preset] = r.seconds * 1e6, said
        yield f"{kind} of 64 MiB on 8 GPUs", times


def _training(data: Path) -> Iterator[tuple[str, Times]]:
    """Seconds for a token of a GPU: for each model and system the fastest published row."""
    best: dict[str, dict[str, tuple[TrainingRow, float]]] = defaultdict(dict)
    for row, error in training_errors(data)[0].items():
        system, model = row.system, row.row["model"].partition(" (")[0]
        if row.row["model"].startswith("MPT") and row.row["model"] not in LLM_FOUNDRY:
            continue
        old = best[model].get(system)
        if old is None or row.published > old[0].published:
            best[model][system] = row, error
    for model, rows in sorted(best.items()):
        if len(rows) > 1:
            times = {
                s: (1 / r.published, 1 / (r.published * (1 + e))) for s, (r, e) in rows.items()
            }
            yield f"training of {model}", times


HEADS = ("workload", "order by measured time", "pairs that agree", "pairs that do not")
TITLE = "Ranking of machines"
TEXT = f"""\
Wherever two machines have figures for the same workload, which one is faster: products by the sum over the
shapes that all tables have, collectives as above, training by the fastest published row of each model and
system. Pairs closer than {TIE:.0%} are not asked; one that is predicted closer than half of that agrees."""
