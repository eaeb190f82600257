"""A tape: collectives where a cutting changes, what is kept once, and backward from its end."""

from __future__ import annotations

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers import INPUT, Dim, Tape, Tensor, add, vector
from chakrakit.workloads.layers.operators import matmul
from chakrakit.workloads.layers.tape import Settings


def tape(tp: int = 1, **settings: bool) -> Tape:
    return Tape("block", Settings({"tp": tp}, **settings))


def test_a_cutting_is_changed_once_for_all_who_want_it_so() -> None:
    t = tape(tp=2)
    x = t.input(Dim(8, ("tp",)), Dim(16))
    whole = Tensor((Dim(8), Dim(16)), "bf16")
    first = t.reshard(x, whole, "op")
    assert t.reshard(x, Tensor((Dim(8), Dim(16)), "bf16"), "other") is first
    [gather] = t.forward
    assert (gather.name, gather.comm) == ("op.all_gather_tp", CollectiveType.ALL_GATHER)
    assert (gather.comm_size, gather.out_size, gather.deps) == (4 * 16 * 2, 8 * 16 * 2, [INPUT])
    assert t.reshard(first, whole) is first


def test_a_tensor_is_kept_once_by_the_node_that_first_asks() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16))
    one = vector(t, "one", [x], keeps=[x])
    vector(t, "two", [one], keeps=[x, one])
    assert [n.alloc for n in t.forward] == [8 * 16 * 2, 8 * 16 * 2]
    assert tape(training=False).keep(0, x) == 0


def test_what_was_gathered_is_kept_cut_and_gathered_again_in_backward() -> None:
    kept = {}
    for save in (True, False):
        t = tape(tp=2, save_gathered=save)
        x = t.input(Dim(8, ("tp",)), Dim(16))
        weight = t.weight("w", Dim(16), Dim(4, ("tp",)))
        block = t.finish(matmul(t, "m", x, weight))
        kept[save] = block.forward[1].alloc
        again = [n.name for n in block.backward if "again" in n.name]
        assert again == ([] if save else ["m.again.all_gather_tp"])
    assert kept == {True: 8 * 16 * 2, False: 4 * 16 * 2}


def test_backward_ends_with_the_gradient_of_the_input() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16))
    block = t.finish(vector(t, "second", [vector(t, "first", [x])]))
    assert [n.name for n in block.backward] == ["second.dx", "first.dx"]
    assert [n.deps for n in block.backward] == [[INPUT], [0]]
    assert (block.forward_end, block.backward_end) == (1, 1)
    assert block.input_bytes == 256


def test_the_loss_waits_for_no_gradient_and_nobody_wants_that_of_the_first_input() -> None:
    t = tape()
    x = t.input(Dim(8), Dim(16), needs_grad=False)
    block = t.finish(matmul(t, "m", x, t.weight("w", Dim(16), Dim(4))), starts_backward=True)
    assert [n.name for n in block.backward] == ["m.dw"]
    assert block.backward[0].deps == []
    assert block.backward_end == -1


def test_gradients_of_one_tensor_are_added_and_reduced_together_or_one_by_one() -> None:
    """Two projections of x, cut over tp: their gradients of x are open sums over tp."""
    counts = {}
    for shared in (True, False):
        t = tape(tp=2, shared_reduce=shared)
        x = t.input(Dim(8), Dim(16))
        a, b = (matmul(t, n, x, t.weight(n, Dim(16), Dim(4, ("tp",)))) for n in "ab")
        block = t.finish(add(t, "sum", a, b))
        counts[shared] = sum(n.comm is CollectiveType.ALL_REDUCE for n in block.backward)
    assert counts == {True: 1, False: 2}


def test_without_training_there_is_no_backward() -> None:
    t = tape(training=False)
    block = t.finish(vector(t, "v", [t.input(Dim(8), Dim(16))]))
    assert (block.backward, block.backward_end) == ([], -1)
