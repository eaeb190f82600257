"""Replica groups in all their forms: lists, iota with a reshape and a transpose, and axes of a mesh."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from chakrakit.errors import FormatError

Groups = tuple[tuple[int, ...], ...]
MOST_DEVICES = 1 << 18
"""Far above any machine; groups list every device, so a damaged file could fill memory and hours."""
_IOTA = re.compile(r"^\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?$")
_INNER = re.compile(r"\{([\d,\s]*)\}")


def iota_groups(shape: Sequence[int], reshape: Sequence[int], order: Sequence[int]) -> Groups:
    """The groups of `[4,2]<=[2,4]T(1,0)`: all devices, reshaped, transposed, cut into groups."""
    count = math.prod(reshape)
    if count != math.prod(shape) or not 0 < count <= MOST_DEVICES:
        raise FormatError(f"replica groups {list(shape)}<={list(reshape)} do not fit each other")
    if order and sorted(order) != list(range(len(reshape))):
        raise FormatError(
            f"replica groups are transposed by {list(order)}, which is not an order of its dimensions"
        )
    devices = np.arange(count).reshape(tuple(reshape))
    if order:
        devices = devices.transpose(tuple(order))
    return tuple(map(tuple, devices.reshape(shape[0], -1).tolist()))


def mesh_groups(
    sizes: Sequence[int],
    axes: Sequence[tuple[int, tuple[int, int] | None]],
    order: Sequence[int] = (),
) -> Groups:
    """Groups along axes of a mesh. An axis may be cut: (size before, size) of the part they span.

    `order` lists the devices of the mesh, where they are not 0, 1, and so on.
    """
    count = math.prod(sizes) if sizes else 0
    if not 0 < count <= MOST_DEVICES or any(not 0 <= a < len(sizes) for a, _ in axes):
        raise FormatError(f"replica groups name an axis that a mesh of {list(sizes)} does not have")
    cut: list[tuple[int, bool]] = []
    for number, size in enumerate(sizes):
        cut += _cut(size, [part for axis, part in axes if axis == number])
    devices = np.array(order if len(order) == count else range(count), np.int64)
    devices = devices.reshape([size for size, _ in cut])
    inside = [i for i, (_, spans) in enumerate(cut) if spans]
    outside = [i for i, (_, spans) in enumerate(cut) if not spans]
    length = math.prod([cut[i][0] for i in inside])
    return tuple(map(tuple, devices.transpose(outside + inside).reshape(-1, length).tolist()))


def _cut(size: int, parts: Sequence[tuple[int, int] | None]) -> list[tuple[int, bool]]:
    """An axis as pieces, each of which groups span or not."""
    if not parts:
        return [(size, False)]
    part = parts[0]
    if part is None:
        return [(size, True)]
    before, inner = part
    if before < 1 or inner < 1 or size % (before * inner):
        raise FormatError(
            f"replica groups span part {before}:{inner} of an axis of {size}, which does not divide it"
        )
    return [(before, False), (inner, True), (size // (before * inner), False)]


_MESH = re.compile(r"^mesh\[([^\]]*)\]\s*(?:,?\s*device_ids=\(([^)]*)\))?\s*\{([^}]*)\}$")
_AXIS = re.compile(r"['\"]?([\w.]+)['\"]?\s*=\s*(\d+)")
_USED = re.compile(r"['\"]?([A-Za-z_][\w.]*)['\"]?(?::\((\d+)\)(\d+))?")


def _parse_mesh(text: str) -> Groups:
    match = _MESH.match(text)
    if match is None:
        raise FormatError(f"replica groups {text[:80]!r} are in an unknown form")
    axes = _AXIS.findall(match[1])
    names = [name for name, _ in axes]
    used = [
        (names.index(n), (int(a), int(b)) if a else None)
        for n, a, b in _USED.findall(match[3])
        if n in names
    ]
    return mesh_groups([int(size) for _, size in axes], used, _numbers(match[2] or ""))


def parse_groups(text: str) -> Groups:
    """`{{0,1},{2,3}}`, `{}`, the iota form, or axes of a mesh."""
    text = text.strip()
    if text.startswith("mesh"):
        return _parse_mesh(text)
    match = _IOTA.match(text.replace(" ", ""))
    if match:
        shape, reshape, order = (_numbers(g or "") for g in match.groups())
        return iota_groups(shape, reshape, order)
    lists = _INNER.findall(text[1:-1])
    return tuple(tuple(_numbers(g)) for g in lists if g.strip())


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """`{{0,1},{1,2}}`: sources and targets."""
    pairs = [tuple(_numbers(g)) for g in _INNER.findall(text.strip()[1:-1])]
    if any(len(p) != 2 for p in pairs):
        raise FormatError(f"source_target_pairs {text[:80]!r} are not pairs")
    return tuple((p[0], p[1]) for p in pairs)


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n.strip()]
