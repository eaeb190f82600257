"""FLOPs and bytes of rows: each operator's work counted once, at what did it."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.linking.rank import link_rank
from chakrakit.sources.pytorch.read import read_kineto
from chakrakit.sources.pytorch.work import innermost, work_of_rows

PRODUCT = 2 * 4 * 4 * 4
"""FLOPs of two matrices of 4 by 4, the shape of every tensor of these recordings."""


def work(recording):
    """Name → (FLOPs, bytes) of the rows that have any."""
    rank = recording.link()
    found = zip(*work_of_rows(rank.line, rank.names, rank.observer, rank.kineto), strict=True)
    return {rank.names[r]: (int(f), int(b)) for r, (f, b) in enumerate(found) if f or b}


def test_a_product_counts_at_the_operator_that_calls_no_other(recording):
    recording.device = "cpu"
    recording.op("aten::matmul", 0, 50, reads=(1, 2), writes=(3,))
    recording.op("aten::mm", 10, 30, reads=(1, 2), writes=(3,))
    assert work(recording) == {"aten::mm": (PRODUCT, 3 * 16 * 4)}


def test_work_is_put_on_the_longest_kernel_that_was_launched(recording):
    recording.op("aten::mm", 0, 50, reads=(1, 2), writes=(3,))
    recording.launch(5, start=20, dur=3, corr=1, name="prepare")
    recording.launch(8, start=30, dur=9, corr=2, name="multiply")
    assert work(recording) == {"multiply": (PRODUCT, 3 * 16 * 4)}


def test_a_contraction_counts_although_it_copies_first(recording):
    """On a host `addmm` copies its bias with an operator of its own."""
    recording.device = "cpu"
    recording.op("aten::addmm", 0, 50, reads=(0, 1, 2), writes=(3,))
    recording.op("aten::copy_", 5, 5, reads=(3, 0), writes=(3,))
    found = work(recording)
    assert found["aten::addmm"][0] == PRODUCT
    assert found["aten::copy_"][0] == 0


def test_views_leave_the_operator_around_them_innermost_and_move_nothing(recording):
    recording.device = "cpu"
    recording.op("aten::neg", 0, 50, reads=(1,), writes=(2,))
    recording.op("aten::view", 5, 5, reads=(1,), writes=(1,))
    rank = recording.link()
    rows = innermost(rank.line, rank.names).nonzero()[0]
    assert [rank.names[r] for r in rows] == ["aten::neg", "aten::view"]
    assert work(recording)["aten::neg"][1] == 2 * 16 * 4
    assert "aten::view" not in work(recording)


@pytest.mark.parametrize(("size", "moved"), [(16, 2 * 4 * 16), (1 << 61, 0)])
def test_tensors_no_machine_holds_count_no_bytes(recording, size, moved):
    recording.device = "cpu"
    recording.op("aten::neg", 0, 50, reads=(1,))
    recording.nodes[0]["inputs"]["shapes"][0] = [size]
    recording.nodes[0]["inputs"]["strides"][0] = [1]
    assert work(recording).get("aten::neg", (0, 0))[1] == moved


def test_kineto_alone_tells_flops_from_its_dimensions(recording):
    recording.op("aten::mm", 0, 50)
    recording.events[0]["args"]["Input Dims"] = [[4, 8], [8, 2]]
    rank = link_rank(0, None, read_kineto(recording.kineto_json().encode()))
    assert work_of_rows(rank.line, rank.names, None, rank.kineto)[0].tolist() == [2 * 4 * 8 * 2]
