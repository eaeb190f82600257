"""Reads tables of measured times of a model's layers on a device, recognized by their columns.

    dense            layer, tokens, time_us
    per sequence     layer, sequences, time_us
    attention        prefill_chunk, kv_prefill (or prefill_key), n_decode, kv_decode, time_us
    experts          [ep,] tokens, activated_experts, time_us
    skew             n, pc, t_mean_us, t_max_us, t_skew_us

All tables of a folder are used together; a single file stands for the folder that it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError, FormatError
from chakrakit.serving.requests import csv_table
from chakrakit.trace.files import unpacked

_KINDS: dict[str, Sequence[set[str]]] = {
    "attention": ({"prefill_chunk", "n_decode", "kv_decode", "time_us"},),
    "experts": ({"tokens", "activated_experts", "time_us"},),
    "dense": ({"layer", "tokens", "time_us"},),
    "per_sequence": ({"layer", "sequences", "time_us"},),
    "skew": ({"n", "pc", "t_mean_us", "t_max_us", "t_skew_us"},),
}
"""The columns that each kind of table must have; the first kind that fits is used."""


@dataclass(frozen=True)
class LayerCurve:
    """Measured times by one number; linear between and beyond the measured ones."""

    x: F64
    seconds: F64

    def at(self, n: F64) -> F64:
        """Seconds at these numbers."""
        if len(self.x) == 1:
            return np.full(np.shape(n), self.seconds[0])
        i = np.clip(np.searchsorted(self.x, n, side="right") - 1, 0, len(self.x) - 2)
        slope = (self.seconds[i + 1] - self.seconds[i]) / (self.x[i + 1] - self.x[i])
        return np.maximum(self.seconds[i] + (n - self.x[i]) * slope, 0.0)


@dataclass
class LayerTables:
    """The tables, as read: curves by layer, and the raw columns of those with more than one axis."""

    path: str
    dense: dict[str, LayerCurve] = field(default_factory=dict)
    per_sequence: dict[str, LayerCurve] = field(default_factory=dict)
    attention: dict[str, F64] | None = None
    experts: dict[str, F64] | None = None
    skew: dict[str, F64] | None = None
    ignored: list[str] = field(default_factory=list)


def read_layers(path: str | Path) -> LayerTables:
    """The tables of a folder, or of a file and those beside it."""
    place = Path(path)
    if not place.exists():
        raise ConfigError(
            f"--layers {path}: no such file or folder; give a folder of measured tables, or one of them"
        )
    folder = place if place.is_dir() else place.parent
    layers = LayerTables(str(path))
    for file in sorted(f for f in folder.iterdir() if f.name.endswith((".csv", ".csv.gz"))):
        _add(layers, file, needed=file == place)
    missing = [n for n in ("dense", "attention") if not getattr(layers, n)]
    if missing:
        raise FormatError(
            f"has no table of {' and '.join(missing)} layers: a CSV with the columns "
            f"{', '.join(sorted(_KINDS[missing[0]][0]))}",
            path=str(path),
        )
    return layers


def _add(layers: LayerTables, file: Path, needed: bool) -> None:
    table = _table(file)
    columns = set(table.column_names)
    kind = next((k for k, options in _KINDS.items() if any(o <= columns for o in options)), None)
    if kind is None:
        if needed:
            raise FormatError(
                f"is not a table of layers; its columns are {', '.join(table.column_names)}",
                path=str(file),
            )
        layers.ignored.append(file.name)
    elif kind in ("dense", "per_sequence"):
        axis = "tokens" if kind == "dense" else "sequences"
        getattr(layers, kind).update(_curves(table, axis, file))
    elif getattr(layers, kind) is not None:
        raise FormatError(f"is a second table of {kind}; keep one in the folder", path=str(file))
    else:
        columns_of = _columns(table, file, _KINDS[kind][0], gaps=kind == "skew")
        setattr(layers, kind, columns_of)


def _table(file: Path) -> pa.Table:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(file)) from None
    return csv_table(unpacked(data, str(file)), str(file))


def _columns(
    table: pa.Table, file: Path, needed: Iterable[str], *, gaps: bool = False
) -> dict[str, F64]:
    """The numeric columns; `needed` ones must hold a number from 0 on in every row, except with `gaps`."""
    numeric = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            plain = column.cast(pa.float64(), safe=False).fill_null(float("nan"))
            numeric[name] = np.asarray(plain.to_numpy())
    for name in needed:
        if name not in numeric or not len(numeric[name]):
            raise FormatError(f"column {name} should hold numbers", path=str(file))
        _check(numeric[name][np.isfinite(numeric[name])] if gaps else numeric[name], name, file)
    return numeric


_MOST = 1e15
"""Far above any number of tokens and any time in microseconds."""


def _check(values: F64, name: str, file: Path) -> None:
    wrong = np.flatnonzero(~((values >= 0) & (values <= _MOST)))
    if len(wrong):
        at = int(wrong[0])
        raise FormatError(f"line {at + 2}: {name} is {values[at]:g}", path=str(file))


def _curves(table: pa.Table, axis: str, file: Path) -> Mapping[str, LayerCurve]:
    columns = _columns(table, file, (axis, "time_us"))
    names = np.array([str(n) for n in table.column("layer").to_pylist()])
    curves = {}
    for name in dict.fromkeys(names.tolist()):
        of_layer = names == name
        x, inverse = np.unique(columns[axis][of_layer], return_inverse=True)
        mean = np.bincount(inverse, columns["time_us"][of_layer]) / np.bincount(inverse)
        curves[name] = LayerCurve(x, mean * 1e-6)
    return curves
