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


def test_tokens_that_lie_after_the_batch_are_copied_where_tp_gathers_and_scatters_them():
    plan = {"model": "gpt3-1.3b", "layers": 1, "tp": 2, "seq": 512, "sequence_dim": "second"}
    copied, beside = (generate(**plan, tp_overlap=on).traces[0] for on in (False, True))

    def names(trace):
        codes, texts = trace.texts("name")
        return [texts[c] for c in codes]

    moves = (CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER)
    moved = [n for n in names(copied) if n.endswith(tuple(f"{m.name.lower()}_tp" for m in moves))]
    copies = [n for n in names(copied) if n.endswith(".order")]
    assert moved
    assert copies == [f"{n}.order" for n in moved]
    sizes = dict(zip(names(copied), copied.column("tensor_size", 0).tolist(), strict=True))
    whole = 2 * 512 * 2048 * 2
    assert {sizes[n] for n in copies if ".layers" in f".{n}"} == {whole}
    assert not [n for n in names(beside) if n.endswith(".order")]
