"""Whether memory suffices: the tightest rank decides."""

from chakrakit.trace.memory import MemoryFit, fit_fields, fit_of, shortage_line

GIB = 2**30


def test_the_rank_that_lacks_most_decides():
    needs, has = {0: 70 * GIB, 1: 90 * GIB, 2: 40 * GIB}, {0: 80 * GIB, 1: 80 * GIB, 2: 24 * GIB}
    assert fit_of(needs, has) == MemoryFit(False, 40 * GIB, 24 * GIB, 2)


def test_exactly_full_fits():
    assert fit_of({3: GIB}, {3: GIB}) == MemoryFit(True, GIB, GIB, 3)


def test_of_equals_the_first_rank_is_named():
    assert fit_of({1: 5, 0: 5}, {0: 9, 1: 9}).rank == 0


def test_nothing_known_is_no_verdict():
    assert fit_of({0: 0}, {0: GIB}) is None
    assert fit_of({0: GIB}, {}) is None
    assert fit_fields(None) == {"fits": None, "needs_bytes": None, "has_bytes": None}


def test_only_what_does_not_fit_is_said():
    line = "DOES NOT FIT: rank 2 needs 40.0 GiB and its device has 24.0 GiB"
    assert shortage_line(False, 40 * GIB, 24 * GIB, "rank 2") == line
    assert shortage_line(True, GIB, GIB) == shortage_line(None, None, None) == ""
