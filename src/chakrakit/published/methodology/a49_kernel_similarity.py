"""A49, similarity of kernels: which kernel of a proxy stands for which kernel of a code, by what they use.

A kernel is a vector: its share of the time, its arithmetic intensity, its FLOPs and its bytes a call.
Kernels of one trace are matched with the nearest of another, whose names say nothing, whose sizes differ, or
whose measurements are distorted. The comparator matches by one figure alone, the best of the four.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines import load_machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, unsure
from chakrakit.simulator.results import simulate
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import workload_of

BASE: dict[str, Any] = {"tp": 8, "seq": 2048, "layers": 4}
PROXIES: dict[str, dict[str, Any]] = {
    "the same, renamed": {},
    "half the sequence": {"seq": 1024},
    "half the width": {"hidden": 2048, "heads": 32, "head_dim": 64, "ffn": 7168},
}
FIGURES = ("time", "intensity", "flops", "bytes")


@cache
def kernels(proxy: str, seed: int) -> dict[str, F64]:
    """Name → time share, intensity, FLOPs and bytes a call, the last three by their logarithm."""
    traces = generate(workload_of(None, "llama3.1-8b", BASE | PROXIES[proxy]))
    done = simulate(traces, unsure(load_machine("dgx-h100"), seed), compute="roofline").run(
        "summary"
    )
    trace = done.trace(0)
    spent = (done.end(0) - done.start(0)).astype(float)
    flops, moved = (trace.column(name, 0).astype(float) for name in ("num_ops", "tensor_size"))
    names = np.array([re.sub(r"[0-9]+", "#", n) for n in trace.nodes["name"].to_pylist()])
    counts = (flops > 0) | (moved > 0)
    found = {}
    for name in np.unique(names[counts]):
        rows = counts & (names == name)
        work, size, calls = flops[rows].sum(), moved[rows].sum(), rows.sum()
        each = [np.log10(1 + work / max(size, 1)), np.log10(1 + work / calls) / 4]
        share = 4 * spent[rows].sum() / spent[counts].sum()
        found[str(name)] = np.array([share, *each, np.log10(1 + size / calls) / 4])
    return found


def matched(code: dict[str, F64], proxy: dict[str, F64], by: str) -> tuple[float, float]:
    """Share of kernels that meet themselves (or their equal), and how alike the two are as a whole.

    One right match is counted in advance, so that shares can be compared where there is none.
    """
    keep = slice(None) if by == "all" else [FIGURES.index(by)]
    ours, theirs = (np.array([v[keep] for v in some.values()]) for some in (code, proxy))
    apart = np.linalg.norm(ours[:, None] - theirs[None], axis=2)
    names = list(proxy)
    best = [names[i] for i in apart.argmin(axis=1)]
    right = [
        b == n or np.allclose(code[b], code[n])
        for b, n in zip(best, code, strict=True)
        if n in proxy
    ]
    weight = np.array([v[0] for v in code.values()])
    score = float((weight * np.exp(-apart.min(axis=1))).sum() / weight.sum())
    return (sum(right) + 1) / (len(right) + 1), score


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Share of kernels matched with the right one, and the score of the whole."""
    code, proxy = kernels("the same, renamed", 0), kernels(case["proxy"], seed if seed else 1)
    rng = np.random.default_rng([seed, 49])
    bent = {n: v + case["distortion"] * rng.standard_normal(4) for n, v in proxy.items()}
    right, score = matched(code, bent, setting["by"])
    return {"right": right, "score": score, "alike": 0.5 + right / 2}


def cases(quick: bool) -> Sequence[Case]:
    """Proxies from the code itself to one of half the width, and distortion of what was measured."""
    same, *others = PROXIES
    bends = (0.0, 0.1, 1.0) if quick else (0.0, 0.1, 0.3, 1.0)
    resized = [] if quick else [{"proxy": name, "distortion": 0.0} for name in others]
    return [*({"proxy": same, "distortion": d} for d in bends), *resized]


STUDY = Study(
    id="A49",
    system="Similarity of computational kernels",
    family="methodology",
    strength="direction",
    claims=[Claim("a kernel is matched with the right one", 0.9, 1.0, "ours", figure="right")],
    rests_on={
        "what operators compute and move": "operators/table.py",
        "how long they take": "machines/device/work.py",
    },
    cases=cases,
    sides={
        "all four figures": [{"by": "all"}],
        "one figure": [{"by": figure} for figure in FIGURES],
    },
    idea="all four figures",
    measure=measure,
    better=("right", "max"),
    health="alike",
    gone=lambda case: bool(case["distortion"] == 1.0),
    ablate={"three of the figures": {"by": "time"}},
    predictions={
        "a renamed code is matched, up to kernels that are equal": lambda t: (
            least(t.figure("right", proxy="the same, renamed", distortion=0.0)) - 0.99
        ),
        "the score falls as distortion grows": lambda t: (
            least(t.figure("score", distortion=0.0, proxy="the same, renamed"))
            - most(t.figure("score", distortion=1.0))
        ),
    },
    decides="the share of time: products that are equal in FLOPs and bytes are told apart by nothing else, "
    "and one that runs beside communication (the gradient of the head's weights) takes longer than others.",
    cannot_say="Counters of real hardware, which the publication uses; here a roofline stands in for them.",
)
