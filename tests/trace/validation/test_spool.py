"""Pieces kept for a second look."""

import numpy as np

from chakrakit import TraceBuilder
from chakrakit.trace.validation.findings import Entries, PieceSpool, short_names


def piece(*names):
    t = TraceBuilder()
    for name in names:
        t.comp(name)
    return t.build()


def test_ids_names_and_dependencies_come_back():
    spool = PieceSpool()
    none = Entries(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
    one = Entries(np.array([7], np.uint64), np.array([2]), np.array([128], np.uint8))
    first, second = piece("a", "b"), piece("c\n")
    spool.add(first, none)
    spool.add(second, one)
    assert spool.rows == 3
    assert [(row, ids.tolist()) for row, ids in spool.ids()] == [
        (0, first.ids.tolist()),
        (2, second.ids.tolist()),
    ]
    assert [(e.src.tolist(), e.dst.tolist(), e.form.tolist()) for e in spool.entries()] == [
        ([], [], []),
        ([7], [2], [128]),
    ]
    assert {row: name for row, (_, name) in spool.nodes([0, 2]).items()} == {0: "a", 2: "c\\n"}


def test_a_long_name_keeps_its_begin_and_its_end():
    name = "begin" + "x" * 600 + "end"
    found = short_names(piece(name, "short").names).to_pylist()
    assert found[1] == "short"
    assert len(found[0]) == 80
    assert found[0].startswith("beginxxx")
    assert found[0].endswith("xxxend")
