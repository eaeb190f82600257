"""Step times from measured layers: their sum over the model, with simulated collectives.

Attention is a grid of measured times, filled where nothing was measured, and corrected for unequal contexts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.serving.steps.collectives import times_on
from chakrakit.serving.steps.costing import StepCost, flat, in_pieces
from chakrakit.serving.steps.layers import LayerTables
from chakrakit.serving.steps.operators import StepOperator, StepOperators
from chakrakit.workloads.description import Experts, Mesh, layer_rows

# --- attention ----------------------------------------------------------------------------------


CHUNK, HISTORY, DECODES, CONTEXT = range(4)
MOST_CELLS = 1 << 24
"""Cells of a grid: 128 MiB of times; tables of many unrelated sizes span a far larger grid than they fill."""
_FILL_ORDER = (CONTEXT, HISTORY, DECODES, CHUNK)
"""Times are linear in contexts, so these are filled first."""


def grid_attention(
    table: Mapping[str, F64], skew: Mapping[str, F64] | None, layers: int
) -> core.ServingGrid:
    """The core's grid of attention times for `layers` layers."""
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
    """The axes and the microseconds of a full grid; a table may mix several measured grids."""
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
    """Spreads times along axes without effect: context without decodes, and history without a chunk."""
    if axes[DECODES][0] == 0:
        means = _finite_mean(values[:, :, 0, :], axis=-1)
        values[:, :, 0, :] = means[:, :, None]
    if axes[CHUNK][0] == 0:
        values[0] = _finite_mean(values[0], axis=0)[None]


def _finite_mean(values: F64, axis: int) -> F64:
    with np.errstate(all="ignore"):
        count = np.isfinite(values).sum(axis=axis)
        return np.where(count > 0, np.nansum(values, axis=axis) / np.maximum(count, 1), np.nan)


def _fill(values: F64, axis_values: F64, axis: int) -> None:
    """Fills each line along one axis, linearly between and beyond its measured values."""
    lines = np.moveaxis(values, axis, -1)
    for place in np.ndindex(lines.shape[:-1]):
        line = lines[place]
        measured = np.isfinite(line)
        if measured.all() or not measured.any():
            continue
        if measured.sum() == 1:
            line[:] = line[measured][0]
            continue
        x, y = axis_values[measured], line[measured]
        i = np.clip(np.searchsorted(x, axis_values[~measured], side="right") - 1, 0, len(x) - 2)
        slope = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
        line[~measured] = np.maximum(y[i] + (axis_values[~measured] - x[i]) * slope, 0.0)


def shares(skew: Mapping[str, F64]) -> tuple[F64, F64, F64]:
    """How far the time of unequal contexts lies from that of all at the mean to that of all at the longest.

    There is one share for each prompt size and number of decodes, by least squares over its rows.
    """
    rise = skew["t_max_us"] - skew["t_mean_us"]
    real = skew["t_skew_us"] - skew["t_mean_us"]
    good = np.isfinite(rise) & np.isfinite(real) & (rise > 0)
    chunks, counts = np.unique(skew["pc"][good]), np.unique(skew["n"][good])
    if not len(chunks):
        return np.zeros(1), np.zeros(1), np.zeros(0)
    share = np.full((len(chunks), len(counts)), np.nan)
    for i, chunk in enumerate(chunks.tolist()):
        for j, count in enumerate(counts.tolist()):
            alike = good & (skew["pc"] == chunk) & (skew["n"] == count)
            if alike.any():
                share[i, j] = np.clip((rise * real)[alike].sum() / (rise**2)[alike].sum(), 0, 1)
        measured = np.isfinite(share[i])
        share[i] = (
            np.interp(counts, counts[measured], share[i][measured]) if measured.any() else 0.0
        )
    return chunks, counts, share


_MLP = {"gate_up_proj", "gate_proj", "up_proj", "act_fn", "down_proj", "mlp"}
"""Layers of an ordinary MLP, which layers with experts do not have."""
_EXPERT_WORDS = ("expert", "router", "moe", "gate")


class MeasuredSteps:
    """The time of a step as a sum of measured layers."""

    def __init__(self, layers: LayerTables, operators: StepOperators, machine: Machine) -> None:
        self.layers, self.operators, self.machine = layers, operators, machine
        self.collectives = times_on(machine)
        self._mesh = Mesh(operators.plan)
        model = operators.model
        kinds, rows = layer_rows(model)
        self.with_experts = sum(isinstance(kinds[name].ffn, Experts) for name in rows)
        if self.with_experts and self.layers.experts is None:
            raise ConfigError(
                f"--layers {layers.path}: {model.name} has experts, and no table has activated_experts"
            )

    def cost(self) -> StepCost:
        """The step's time with all terms."""
        together = self.operators.plan.dp > 1 and self.with_experts > 0
        return StepCost(
            in_pieces(lambda n: self._dense(n, together), 512),
            in_pieces(self._head, 512),
            self._attention(),
            shared=in_pieces(self._experts, 512) if together else None,
            about=f"measured layers of {self.layers.path}",
            notes=self._notes(),
        )

    def _attention(self) -> core.ServingGrid:
        assert self.layers.attention is not None
        return grid_attention(self.layers.attention, self.layers.skew, self.operators.model.layers)

    def _notes(self) -> tuple[str, ...]:
        if self.layers.skew is None:
            return ("no table of skew: contexts of unequal length cost what their mean costs",)
        return ()

    def times_in_step(self, layer: str) -> int:
        """How often a layer of this name runs in a step."""
        model = self.operators.model
        if ("embed" in layer and "rotary" not in layer) or layer.startswith("final"):
            return 1
        if layer in _MLP:
            return model.layers - self.with_experts
        if any(word in layer for word in _EXPERT_WORDS):
            return self.with_experts
        return 2 * model.layers if layer == "layernorm" else model.layers

    def _dense(self, tokens: F64, together: bool) -> F64:
        total = np.zeros(len(tokens))
        for name, curve in self.layers.dense.items():
            total += self.times_in_step(name) * curve.at(tokens)
        for operator in self._collectives(sampled=False):
            if not (together and operator.routed):
                total += self._communication(operator, tokens)
        return total if together or not self.with_experts else total + self._expert_blocks(tokens)

    def _head(self, sampled: F64) -> F64:
        total = np.zeros(len(sampled))
        for curve in self.layers.per_sequence.values():
            total += curve.at(sampled)
        for operator in self._collectives(sampled=True):
            total += self._communication(operator, 0 * sampled, sampled)
        return total

    def _collectives(self, sampled: bool) -> list[StepOperator]:
        return [o for o in self.operators.operators if o.comm >= 0 and o.by_sampled == sampled]

    def _communication(self, o: StepOperator, tokens: F64, sampled: F64 | None = None) -> F64:
        size = o.comm_size.at(tokens, 0 * tokens if sampled is None else sampled, 0 * tokens)
        return o.count * self.collectives.seconds(o.comm, size, self._mesh.members(o.role)[0])

    # --- experts --------------------------------------------------------------------------------

    def _experts(self, together: F64) -> F64:
        """Seconds of the work that ranks do together, by the tokens of all of them."""
        each = together / self.operators.plan.dp
        total = self._expert_blocks(each)
        for operator in self._collectives(sampled=False):
            if operator.routed:
                total = total + self._communication(operator, each)
        return total

    def _expert_blocks(self, tokens: F64) -> F64:
        """Seconds of the blocks of experts, from the tokens of one attention rank.

        A rank has as many token–expert pairs as with all experts and 1 / ep of all tokens; a table with an
        `ep` column was measured with a rank's slice of the experts and is read at all tokens.
        """
        assert self.layers.experts is not None
        model, ep = self.operators.model, self.operators.plan.ep
        table, sliced = at_degree(self.layers.experts, ep)
        gathered = tokens * ep
        activated = model.experts / ep * np.asarray(self.operators.experts_met(tokens))
        return self.with_experts * surface(table, gathered if sliced else gathered / ep, activated)


def at_degree(table: dict[str, F64], ep: int) -> tuple[dict[str, F64], bool]:
    """The rows measured at the nearest degree, and whether they are of a slice of the experts."""
    if "ep" not in table:
        return table, False
    degrees = np.unique(table["ep"])
    nearest = degrees[np.argmin(np.abs(np.log(degrees / ep)))]
    at_nearest = table["ep"] == nearest
    return {n: v[at_nearest] for n, v in table.items()}, bool(nearest > 1)


def surface(table: dict[str, F64], tokens: F64, activated: F64) -> F64:
    """Seconds, interpolated along experts at each measured number of tokens, then along tokens."""
    sizes = np.unique(table["tokens"])
    columns = []
    for size in sizes.tolist():
        at_size = table["tokens"] == size
        order = np.argsort(table["activated_experts"][at_size])
        x, y = table["activated_experts"][at_size][order], table["time_us"][at_size][order]
        columns.append(np.interp(activated, x, y))
    lines = np.array(columns)
    if len(sizes) == 1:
        return np.asarray(lines[0] * 1e-6)
    i = np.clip(np.searchsorted(sizes, tokens, side="right") - 1, 0, len(sizes) - 2)
    at = np.arange(len(tokens))
    slope = (lines[i + 1, at] - lines[i, at]) / (sizes[i + 1] - sizes[i])
    return np.asarray(np.maximum(lines[i, at] + (tokens - sizes[i]) * slope, 0.0) * 1e-6)
