"""Tensor-parallel collectives beside their products."""

from chakrakit import generate
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import Block, BlockNode
from chakrakit.workloads.layers.stack import overlapped


def node(name, op, *deps, comm=None):
    return BlockNode(name, op, comm=comm, role="tp" if comm is not None else "", deps=list(deps))


def block(*nodes):
    return Block("b", list(nodes), [], [], 0, len(nodes) - 1, -1)


def test_a_product_starts_with_the_gather_of_its_input_and_both_are_waited_for():
    gather = node("gather", "collective", 0, comm=CollectiveType.ALL_GATHER)
    given = block(
        node("norm", "vector", -1), gather, node("up", "matmul", 1), node("act", "vector", 2)
    )
    assert [n.deps for n in overlapped(given).forward] == [[-1], [0], [0], [1, 2]]


def test_a_scatter_starts_with_the_product_whose_sums_it_moves():
    scatter = node("scatter", "collective", 1, comm=CollectiveType.REDUCE_SCATTER)
    given = block(
        node("act", "vector", -1), node("down", "matmul", 0), scatter, node("add", "vector", 2)
    )
    assert [n.deps for n in overlapped(given).forward] == [[-1], [0], [0], [1, 2]]


def test_the_last_node_of_a_block_is_left_alone_as_the_next_block_waits_for_it_only():
    scatter = node("scatter", "collective", 0, comm=CollectiveType.REDUCE_SCATTER)
    given = block(node("down", "matmul", -1), scatter)
    assert [n.deps for n in overlapped(given).forward] == [[-1], [0]]


def test_a_step_with_overlap_does_the_same_work_and_takes_less_time():
    from chakrakit import simulate

    plan = {"model": "gpt3-1.3b", "tp": 8, "seq": 512, "global_batch": 1}
    plain, beside = (generate(**plan, tp_overlap=on).traces for on in (False, True))
    for name in ("num_ops", "comm_size"):
        assert plain[0].column(name, 0).sum() == beside[0].column(name, 0).sum()
    times = [simulate(t, "dgx-h100").makespan_ns for t in (plain, beside)]
    assert times[1] < times[0]
