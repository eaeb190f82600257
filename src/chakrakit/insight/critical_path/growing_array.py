"""Arrays that grow as ranks come: one piece of memory each, whatever the number of ranks."""

from __future__ import annotations

from typing import Generic

import numpy as np
from numpy.typing import NDArray

from chakrakit.trace.model import Scalar


class GrowingArray(Generic[Scalar]):
    """Appends small arrays to a large one.

    A list of them would cost as much again when it is joined, and what the small ones leave behind
    when they go is of no use to large arrays.
    """

    def __init__(self, dtype: type[Scalar]) -> None:
        self._data: NDArray[Scalar] = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, values: NDArray[Scalar]) -> None:
        """Appends."""
        size = self._size + len(values)
        if size > len(self._data):
            self._data.resize(max(size, len(self._data) * 9 // 8), refcheck=False)
        self._data[self._size : size] = values
        self._size = size

    def taken(self) -> NDArray[Scalar]:
        """All of it; nothing is left here."""
        found, self._data = self._data, self._data[:0].copy()
        found.resize(self._size, refcheck=False)
        self._size = 0
        return found
