"""Fits the profiles that are carried from the H200's: `python benchmarks/fit_carried.py DATA [OUT]`.

DATA holds `kernels`, tables of products and attention by card (ai-dynamo/aiconfigurator 095f58a). The H200's
profile is carried to each card by its peaks; what is left, the logarithm of measured over carried time, is
fitted by a grid over the logarithms of the shape. Absolute errors are minimised, so that single rows do not
decide, and values where rows are few are held near 0. The error that a file states is the median of rows that
were left out: every other one, both ways. OUT is the folder of packaged profiles.
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
from chakrakit.machines.device import (
    Correction,
    Profile,
    Profiled,
    find_profile,
    packaged_profile,
    weights,
)
from chakrakit.operators import Operation, attention_flops, gemm_operation

CARDS = {"h100": "dgx-h100", "a100": "dgx-a100", "b200": "dgx-b200"}
BASE = "h200"
RIDGE = 0.1
"""How strongly values are held near 0, in rows; of 0.1 to 1.5 the best on the even rows of all cards, half of
them fitted and half asked."""
ROUNDS = 4
"""Rounds of reweighting by the size of what is left, which minimises absolute errors."""
LEAST = 0.03
"""Rows nearer than this count as if they were this far."""
KNOTS: dict[str, list[list[float]]] = {
    "gemm": [[0, 2, 4, 6, 8, 10, 12, 14, 16], [5, 7, 9, 11, 13, 15, 17], [5, 7, 9, 11, 13, 15, 17]],
    "attention": [[0, 3, 6, 9, 12], [4, 7, 10, 13, 16], [0, 20], [6, 7, 8]],
    "decode": [[0, 3, 6, 9, 12], [0, 2, 4, 6], [4, 7, 10, 13, 16], [6, 7, 8]],
}
"""Octaves of (m, n, k), of (batch × heads, queries, keys, head size) and of (batch × cached heads, sharing
heads, keys, head size)."""
TILES: dict[str, list[float]] = {"a100": [0, 2, 4, 6, 7, 7.3, 8, 10, 12, 14, 16]}
"""Octaves of m where tiles are coarser than on the H200: 128 rows, so that 160 take as long as 256."""


def half_fitted(data: Path, card: str) -> Profiled:
    """A card's profile with products corrected by the even rows of its table alone."""
    device = load_machine(CARDS[card]).devices[0]
    carried = Profile(
        name=f"{card}, half", base=BASE, peak=device.peak, memory_bandwidth=device.memory_bandwidth
    )
    rows = _rows(data / "kernels", card, "gemm")[::2]
    carried.corrections = {"gemm": _fitted("gemm", rows, carried, _knots("gemm", card))}
    return Profiled(carried)


def main(data: str, output: str = "src/chakrakit/machines/profiles") -> int:
    """Writes one file for each card that has tables."""
    for card, machine in CARDS.items():
        device = load_machine(machine).devices[0]
        tables = {k: rows for k in KNOTS if (rows := _rows(Path(data) / "kernels", card, k))}
        profile = Profile(
            name=card,
            device=device.name,
            fitted_on=[f"{k}: {len(rows)} rows of aiconfigurator 095f58a" for k, rows in tables.items()],
            peak=device.peak,
            memory_bandwidth=device.memory_bandwidth,
            base=BASE,
        )  # fmt: skip
        profile.corrections = {
            k: _fitted(k, rows, profile, _knots(k, card)) for k, rows in tables.items()
        }
        for kind, grid in profile.corrections.items():
            print(card, kind, len(tables[kind]), f"left out: median {grid.error:.1%}")
        text = msgspec.json.format(msgspec.json.encode(_plain(profile)), indent=1)
        (Path(output) / f"{card}.json").write_bytes(text + b"\n")
    return 0


def _plain(profile: Profile) -> dict[str, Any]:
    """The fields of a carried profile that say something, values with three digits."""
    fields = msgspec.to_builtins(profile)
    for grid in fields["corrections"].values():
        grid["values"] = [round(v, 3) for v in grid["values"]]
        grid["error"] = round(grid["error"], 3)
    return {name: value for name, value in fields.items() if value}


def _rows(folder: Path, card: str, kind: str) -> list[tuple[Operation, float]]:
    """Operations and their measured microseconds."""
    name = {"gemm": "gemm", "attention": "attention_prefill", "decode": "attention_decode"}[kind]
    file = folder / f"{name}_{card}_bf16_sample.parquet"
    if not file.is_file():
        return []
    table = pq.read_table(file).to_pylist()
    return [(_OPERATION[kind](r), r["latency_us"]) for r in table if not r.get("window")]


def _gemm(row: dict[str, Any]) -> Operation:
    operation = gemm_operation(row["m"], row["n"], row["k"])
    return operation._replace(table=f"{operation.kind}.nt")


def _prefill(row: dict[str, Any]) -> Operation:
    b, q, h, kv, d = (row[n] for n in ("batch", "query", "heads", "kv_heads", "head_dim"))
    flops = attention_flops(b * h * q * q, d, d, causal=True)
    table = "attention.cudnn.causal" + ".grouped" * (h != kv)
    return Operation("attention", (b * h, q, q, d), flops, 4.0 * b * q * d * (h + kv), table)


def _decode(row: dict[str, Any]) -> Operation:
    b, c, h, kv, d = (row[n] for n in ("batch", "context", "heads", "kv_heads", "head_dim"))
    moved = 4.0 * b * kv * c * d + 4.0 * b * h * d
    shape = (b * kv, h // kv, c, d)
    return Operation("attention", shape, attention_flops(b * h * c, d, d), moved, "decode.cudnn")


_OPERATION = {"gemm": _gemm, "attention": _prefill, "decode": _decode}


def _knots(kind: str, card: str) -> list[list[float]]:
    first, *rest = KNOTS[kind]
    return [TILES.get(card, first) if kind == "gemm" else first, *rest]


def _fitted(
    kind: str, rows: list[tuple[Operation, float]], profile: Profile, knots: list[list[float]]
) -> Correction:
    base = packaged_profile(BASE)
    carried = []
    for operation, _ in rows:
        prediction = base.as_timed(operation)
        assert prediction is not None
        carried.append(base.carried(prediction, operation, profile).us)
    left = np.log(np.array([us for _, us in rows]) / np.array(carried))
    shapes = np.log2(np.maximum(1, np.array([o.shape for o, _ in rows], np.float64)))
    columns = weights(shapes, knots)
    error = np.concatenate([_left_out(columns, left, half) for half in (0, 1)])
    values = _grid(columns, left)
    return Correction(knots, values.tolist(), float(np.median(np.abs(np.expm1(error)))))


def _left_out(columns: F64, left: F64, half: int) -> F64:
    """What every other row leaves when the grid is fitted on the rest."""
    out = np.arange(len(left)) % 2 == half
    return np.asarray(columns[out] @ _grid(columns[~out], left[~out]) - left[out])


def _grid(columns: F64, left: F64) -> F64:
    weight = np.ones(len(left))
    for _ in range(ROUNDS):
        square = columns.T @ (columns * weight[:, None]) + RIDGE * np.eye(columns.shape[1])
        values = np.linalg.solve(square, columns.T @ (weight * left))
        weight = 1 / np.maximum(np.abs(left - columns @ values), LEAST)
        weight /= weight.mean()
    return np.asarray(values)


if __name__ == "__main__":
    assert find_profile(BASE).classes
    sys.exit(main(*sys.argv[1:]))
