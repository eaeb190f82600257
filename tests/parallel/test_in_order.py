"""One function on many items, in their order, here or on workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chakrakit.errors import ChakraError, TraceError
from chakrakit.parallel import Workers, spread


def squared(number: int) -> int:
    if number == 7:
        raise TraceError("seven")
    if number == 8:
        raise ValueError("eight\nlines")
    return number * number


def test_values_come_in_the_order_of_the_items(pickled: Workers) -> None:
    for workers in (None, pickled):
        assert list(spread(squared, range(7), workers)) == [0, 1, 4, 9, 16, 25, 36]
        assert list(spread(squared, [], workers)) == []


def test_an_error_ends_it_with_its_text(pickled: Workers) -> None:
    with pytest.raises(ChakraError, match=r"^seven$"):
        list(spread(squared, range(8), pickled))
    with pytest.raises(ChakraError, match=r"^ValueError: eight lines$"):
        list(spread(squared, [8], pickled))
    with pytest.raises(TraceError):
        list(spread(squared, range(8)))


def test_items_are_taken_as_they_are_needed(pickled: Workers) -> None:
    taken = []

    def items() -> Iterator[int]:
        for i in range(6):
            taken.append(i)
            yield i

    for workers, most in ((None, 1), (pickled, 4)):
        taken.clear()
        found = spread(squared, items(), workers)
        assert next(found) == 0
        assert len(taken) <= most
        found.close()  # type: ignore[attr-defined]
