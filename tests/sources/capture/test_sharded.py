"""What FSDP gathers and reduces runs beside the products of other blocks."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.trace.model import CollectiveType, Graph

PARAMETERS = 4 * 2 * 64 * 96
"""Of four blocks with two products each."""


@pytest.fixture(params=["", pytest.param("flat", marks=pytest.mark.slow)])
def sharded(captured, request):
    return captured("sharded", *filter(None, [request.param]), ranks=4, device="h100")


@pytest.fixture
def trace(sharded):
    return sharded[1].trace(0)


@pytest.fixture
def order(trace):
    """What comes before what: by the trace's edges, and on each stream one after the other."""
    stream = trace.column("stream", -1)
    lanes = [np.flatnonzero(stream == s) for s in np.unique(stream[stream >= 0])]
    first = np.concatenate([trace.edges.src, *(rows[:-1] for rows in lanes)])
    then = np.concatenate([trace.edges.dst, *(rows[1:] for rows in lanes)])
    return Graph(len(trace), first, then)


def _rows(trace, kind):
    return np.flatnonzero(trace.column("comm_type", -1) == int(kind))


def _products(trace):
    return np.array(trace.names.to_pylist()) == "aten::mm"


def test_parameters_are_those_before_they_were_cut(sharded):
    assert sharded[0].kinds[0].parameters == PARAMETERS


def test_blocks_are_gathered_while_those_before_them_compute(trace, order):
    """FSDP2 begins to gather once the block before the last has been copied out, FSDP1 without a limit."""
    gathers = _rows(trace, CollectiveType.ALL_GATHER)[:4]
    before = [int(_products(trace)[order.ancestors(row)].sum()) for row in gathers]
    limited = "fsdp::all_gather_copy_in" in trace.names.to_pylist()
    assert before == [0, 0, 0, 2 if limited else 0]


def test_the_products_of_the_next_block_do_not_wait_for_a_reduction(trace, order):
    first, *others = _rows(trace, CollectiveType.REDUCE_SCATTER)
    assert len(others) == 3
    issued_later = _products(trace) & (np.arange(len(trace)) > first)
    # Four a block, but for the first, which needs no gradient of its input.
    assert issued_later.sum() == 11
    waiting = issued_later & order.descendants(first)
    assert not waiting[: others[0]].any()
