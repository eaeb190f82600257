"""Domains and their halos: which stretch of a grid a rank has, and what its neighbours must send it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chakrakit.workloads.spatial.windows import Sized


class Edge(NamedTuple):
    """What a rank exchanges with one neighbour: the rows and columns of a strip, which go both ways."""

    peer: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Domains:
    """A grid cut into rows × columns of tiles; rank r has tile (r // columns, r % columns)."""

    rows: int
    columns: int

    @property
    def ranks(self) -> int:
        """Tiles in all."""
        return self.rows * self.columns

    def tile(self, rank: int, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of a rank's tile; some have one more than others."""
        i, j = divmod(rank, self.columns)
        return _part(rows, i, self.rows), _part(columns, j, self.columns)

    def vertical(self, rank: int, layer: Sized) -> Iterator[Edge]:
        """Strips of rows to the tiles above and below, which come first."""
        i, j = divmod(rank, self.columns)
        height, width = self.tile(rank, layer.rows, layer.columns)
        for other in (i - 1, i + 1):
            if 0 <= other < self.rows and height:
                yield Edge(other * self.columns + j, layer.halo, width)

    def horizontal(self, rank: int, layer: Sized) -> Iterator[Edge]:
        """Strips of columns to the tiles on either side, with the rows that came: so corners are there."""
        i, j = divmod(rank, self.columns)
        height, _ = self.tile(rank, layer.rows, layer.columns)
        seen = height + layer.halo * ((i > 0) + (i < self.rows - 1))
        for other in (j - 1, j + 1):
            if 0 <= other < self.columns:
                yield Edge(i * self.columns + other, seen, layer.halo)


def _part(size: int, place: int, parts: int) -> int:
    return size * (place + 1) // parts - size * place // parts


def halo_bytes(layer: Sized, rows: int, columns: int, element: int = 2) -> int:
    """Bytes that all ranks send before a layer: 2 h (rows - 1) W and 2 h (columns - 1) (H + corners)."""
    h = layer.halo
    down = 2 * h * (rows - 1) * layer.columns
    corners = 2 * h * (rows - 1)
    across = 2 * h * (columns - 1) * (layer.rows + corners)
    return (down + across) * layer.channels * element
