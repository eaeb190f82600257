"""Attention as measured: a grid of times filled where nothing was measured, and unequal contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.serving.steps.costing import F64, flat

CHUNK, HISTORY, DECODES, CONTEXT = range(4)
MOST_CELLS = 1 << 24
_FILL_ORDER = (CONTEXT, HISTORY, DECODES, CHUNK)
"""Times are linear in contexts, so these are filled first."""


def grid_attention(
    table: Mapping[str, F64], skew: Mapping[str, F64] | None, layers: int
) -> core.ServingGrid:
    """What the core needs to time attention of `layers` layers."""
    axes, values = filled_grid(table)
    chunks, decodes, share = (
        (np.zeros(1), np.zeros(1), np.zeros(0)) if skew is None else shares(skew)
    )
    return core.ServingGrid(
        axes=[flat(axis) for axis in axes],
        values=flat(values * layers * 1e6),
        share_axes=[flat(axis) for axis in (chunks, decodes, [1.0])],
        share=flat(share),
    )


def filled_grid(table: Mapping[str, F64]) -> tuple[list[F64], F64]:
    """Axes and microseconds of a whole grid. Several measured grids may be mixed in one table."""
    if "decode_q_len" in table:  # more tokens of a decode: another kernel, for drafts
        table = {n: v[table["decode_q_len"] == 1] for n, v in table.items()}
    columns = _axes_of(table)
    axes = [np.unique(c) for c in columns]
    cells = math.prod(len(a) for a in axes)
    if not 0 < cells <= MOST_CELLS:
        raise ConfigError(
            f"--layers: the attention table spans a grid of {cells:,} cells; from 1 to "
            f"{MOST_CELLS:,} can be used"
        )
    values = np.full([len(a) for a in axes], np.nan)
    places = tuple(np.searchsorted(axes[i], columns[i]) for i in range(4))
    values[places] = table["time_us"]
    _spread_absent(axes, values)
    for axis in _FILL_ORDER:
        _fill(values, axes[axis], axis)
    if not np.isfinite(values).all():
        raise ConfigError("--layers: the attention table has too few rows to fill its grid")
    return axes, np.maximum(values, 0.0)


def _axes_of(table: Mapping[str, F64]) -> list[F64]:
    if "kv_prefill" in table:
        history = table["kv_prefill"]
    elif "prefill_key" in table:  # the mean context of the chunk's tokens
        history = table["prefill_key"] - table["prefill_chunk"] / 2
    else:
        raise ConfigError("--layers: the attention table has neither kv_prefill nor prefill_key")
    return [table["prefill_chunk"], history, table["n_decode"], table["kv_decode"]]


def _spread_absent(axes: list[F64], values: F64) -> None:
    """Without decodes their context does not matter, nor does history without a chunk."""
    if axes[DECODES][0] == 0:
        known = _any_known(values[:, :, 0, :], axis=-1)
        values[:, :, 0, :] = known[:, :, None]
    if axes[CHUNK][0] == 0:
        values[0] = _any_known(values[0], axis=0)[None]


def _any_known(values: F64, axis: int) -> F64:
    with np.errstate(all="ignore"):
        count = np.isfinite(values).sum(axis=axis)
        return np.where(count > 0, np.nansum(values, axis=axis) / np.maximum(count, 1), np.nan)


def _fill(values: F64, axis_values: F64, axis: int) -> None:
    """Along one axis, linear between and beyond the known values of each line."""
    lines = np.moveaxis(values, axis, -1)
    for place in np.ndindex(lines.shape[:-1]):
        line = lines[place]
        known = np.isfinite(line)
        if known.all() or not known.any():
            continue
        if known.sum() == 1:
            line[:] = line[known][0]
            continue
        x, y = axis_values[known], line[known]
        i = np.clip(np.searchsorted(x, axis_values[~known], side="right") - 1, 0, len(x) - 2)
        slope = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
        line[~known] = np.maximum(y[i] + (axis_values[~known] - x[i]) * slope, 0.0)


def shares(skew: Mapping[str, F64]) -> tuple[F64, F64, F64]:
    """Where a batch of unequal contexts lies between all at the mean and all at the longest.

    One share for each prompt size and number of decodes: the least-squares one over its rows.
    """
    rise = skew["t_max_us"] - skew["t_mean_us"]
    real = skew["t_skew_us"] - skew["t_mean_us"]
    good = np.isfinite(rise) & np.isfinite(real) & (rise > 0)
    chunks, counts = np.unique(skew["pc"][good]), np.unique(skew["n"][good])
    if not len(chunks):
        return np.zeros(1), np.zeros(1), np.zeros(0)
    found = np.full((len(chunks), len(counts)), np.nan)
    for i, chunk in enumerate(chunks.tolist()):
        for j, count in enumerate(counts.tolist()):
            own = good & (skew["pc"] == chunk) & (skew["n"] == count)
            if own.any():
                found[i, j] = np.clip((rise * real)[own].sum() / (rise**2)[own].sum(), 0, 1)
        known = np.isfinite(found[i])
        found[i] = np.interp(counts, counts[known], found[i][known]) if known.any() else 0.0
    return chunks, counts, found
