"""The feeder gives every node once, after its dependencies, and says so when it cannot."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chakrakit.core as core
from chakrakit.errors import DeadlockError, FormatError, TraceError
from chakrakit.trace.storage import Feeder, feeder_paths
from support.examples import examples
from support.feeder_traces import (
    Graph,
    Model,
    attribute,
    field,
    frame,
    node,
    random_graph,
    trace,
    trace_of,
)


@examples(60)
@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 7, 1000]), st.integers(1, 9))
def test_order_is_that_of_the_model(rng: random.Random, window: int, units: int) -> None:
    """Each node comes once, never before its parents, the lowest ready id of the window first."""
    graph = random_graph(rng, rng.randrange(1, 60))
    model, feeder = Model(graph, window), Feeder(trace_of(graph), window=window)
    while not feeder.finished:
        if feeder.in_flight < units:
            got = feeder.take()
            assert (got and got.id) == model.take()
        if feeder.in_flight and rng.random() < 0.7:
            id = rng.choice(sorted(model.taken))
            model.done(id)
            feeder.done(id)
    assert model.finished == {id for id, _ in graph}


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 2, 7, 1000])
def test_large_random_graphs_drain(window: int) -> None:
    graph = random_graph(random.Random(window), 20_000)
    place = {n.id: i for i, n in enumerate(Feeder(trace_of(graph), window=window))}
    assert len(place) == len(graph)
    assert all(place[dep] < place[id] for id, deps in graph for dep in deps)


@pytest.mark.parametrize("seed", range(4))
def test_batches_give_the_same_order_as_single_calls(seed: int) -> None:
    graph = random_graph(random.Random(seed), 500)
    single, batched = Feeder(trace_of(graph), window=50), Feeder(trace_of(graph), window=50)
    while not single.finished:
        one = [n.id for _ in range(8) if (n := single.take())]
        ids = batched.take_batch(8)["id"]
        assert one == ids.tolist()
        batched.done_batch(ids)
        single.done_batch(np.array(one, np.uint64))
    assert batched.finished


def test_star_beyond_the_window_with_eight_in_flight() -> None:
    """Nodes read after their parent finished still run, and none in flight is given out again."""
    graph: Graph = [(0, []), *((i, [0]) for i in range(1, 5000)), (5000, list(range(5000)))]
    feeder = Feeder(trace_of(graph), window=100)
    given_out: list[int] = []
    in_flight: list[int] = []
    while not feeder.finished:
        while len(in_flight) < 8 and (n := feeder.take()):
            given_out.append(n.id)
            in_flight.append(n.id)
        feeder.done(in_flight.pop(0))
    assert given_out == list(range(5001))


def test_any_ready_node_can_be_taken_and_given_back() -> None:
    feeder = Feeder(trace(node(3), node(1), node(2), node(4, [1])))
    assert feeder.ready().tolist() == [1, 2, 3]
    assert feeder.take_id(2).id == 2
    feeder.push_back(2)
    assert [feeder.take().id for _ in range(3)] == [1, 2, 3]  # type: ignore[union-attr]
    assert feeder.take() is None
    assert not feeder.finished
    feeder.push_back(2)
    feeder.done(1)
    assert feeder.ready().tolist() == [2, 4]


def test_taking_by_choice_for_long_keeps_the_order() -> None:
    """Entries of nodes taken out of turn pile up in the queue and are dropped on the way."""
    feeder = Feeder(trace(*(node(i) for i in range(3000))), window=5000)
    feeder.ready()
    for id in range(2999, 100, -1):
        feeder.take_id(id)
        if id % 3 == 0:
            feeder.push_back(id)
    expected = [i for i in range(3000) if i <= 100 or i % 3 == 0]
    assert feeder.take_batch(5000)["id"].tolist() == expected


def test_duplicate_edges_count_once_each() -> None:
    feeder = Feeder(trace(node(2, [1, 1, 1], ctrl=[1]), node(1)))
    assert [n.id for n in feeder] == [1, 2]


@pytest.mark.slow
def test_a_hundred_thousand_dependencies() -> None:
    graph: Graph = [(10**6, list(range(100_000))), *((i, []) for i in range(100_000))]
    assert [n.id for n in Feeder(trace_of(graph))][-1] == 10**6


def test_ids_near_the_largest() -> None:
    top = 2**64 - 1
    graph: Graph = [(top - i, [top - i - 1] if i < 200 else []) for i in range(201)]
    assert [n.id for n in Feeder(trace_of(graph))] == list(range(top - 200, top + 1))


def test_only_data_dependencies_on_request() -> None:
    source = trace(node(1, ctrl=[2]), node(2))
    assert [n.id for n in Feeder(source)] == [2, 1]
    source.seek(0)
    assert [n.id for n in Feeder(source, ctrl=False)] == [1, 2]


def test_missing_parent_is_named() -> None:
    source = trace(node(17, [99], name="gemm"), node(1))
    with pytest.raises(
        DeadlockError, match="node 17 'gemm' waits for node 99, which is not in the"
    ):
        list(Feeder(source))
    source.seek(0)
    assert [n.id for n in Feeder(source, missing="ignore")] == [1, 17]


def test_a_name_that_is_no_text_can_still_be_told() -> None:
    damaged = frame(field(1, 17) + field(2, b"ge\xffm\nm") + field(5, 99))
    with pytest.raises(DeadlockError, match="node 17 'ge�m\\?m' waits"):
        list(Feeder(trace(damaged)))


def test_a_damaged_list_is_refused_when_read() -> None:
    message = field(1, 17) + attribute("involved_dim", 28, field(1, b"\x01\x80"))
    place = f"at byte {2 + len(message) - 1}: node #1: an attribute's list: varint runs past"
    with pytest.raises(FormatError, match=place):
        Feeder(trace(frame(message))).take()


def test_an_error_of_the_trace_stays() -> None:
    feeder = Feeder(trace(node(1, [2])))
    for _ in range(3):
        with pytest.raises(DeadlockError):
            feeder.take()


def test_cycle_is_named_in_order() -> None:
    source = trace(node(5, [9], name="c"), node(7, [5], name="a"), node(9, [7], name="b"), node(1))
    expected = "node 5 'c' → node 7 'a' → node 9 'b' → node 5"
    feeder = Feeder(source)
    assert feeder.take_batch(9)["id"].tolist() == [1]
    feeder.done(1)
    with pytest.raises(DeadlockError, match=expected):
        feeder.take()


def test_self_dependency_is_a_cycle_of_one() -> None:
    with pytest.raises(DeadlockError, match="node 4 → node 4"):
        list(Feeder(trace(node(4, [4]))))


@pytest.mark.slow
def test_cycle_of_a_million() -> None:
    n = 1_000_000
    body = b"".join(frame(field(1, i) + field(5, (i + 1) % n)) for i in range(n))
    with pytest.raises(DeadlockError, match="999984 more nodes → node 0"):
        Feeder(trace(body), window=10).take()


def test_duplicate_id_is_named() -> None:
    for window in (1, 100):
        with pytest.raises(FormatError, match=r"node #3: node id 1 appears twice"):
            list(Feeder(trace(node(1), node(2), node(1)), window=window))


def test_calls_for_nodes_in_the_wrong_state() -> None:
    feeder = Feeder(trace(node(1), node(2, [1]), node(3)))
    with pytest.raises(TraceError, match="cannot finish node 1: it is not a node that was read"):
        feeder.done(1)
    assert feeder.take().id == 1  # type: ignore[union-attr]
    for call, id, why in [
        (feeder.done, 2, "waiting for other nodes"),
        (feeder.done, 3, "ready and not taken"),
        (feeder.done, 77, "not a node that was read"),
        (feeder.push_back, 3, "ready and not taken"),
        (feeder.take_id, 1, "taken already"),
    ]:
        with pytest.raises(TraceError, match=f"node {id}: it is {why}"):
            call(id)
    feeder.done(1)
    with pytest.raises(TraceError, match="finished already"):
        feeder.done(1)
    assert [n.id for n in feeder] == [2, 3]


def test_fields_and_attributes_of_a_node() -> None:
    message = field(1, 8) + field(2, "mm\xff".encode("latin-1")) + field(3, 7) + field(6, 4)
    message += field(7, 5) + field(4, 3) + field(5, b"\x01\x02") + field(5, 2)
    message += attribute("is_cpu_op", 27, 1) + attribute("comm_size", 13, 2**64 - 1)
    message += attribute("comm_src", 15, 3) + attribute("pg_name", 29, b"tp")
    message += attribute("involved_dim", 28, field(1, b"\x01\x00\x01"))
    message += attribute("num_ops", 29, b"many") + attribute("raw", 31, b"\xfe")
    message += field(10, field(1, b"scale") + b"\x19" + np.float64(0.5).tobytes())
    feeder = Feeder(trace(frame(message), node(1), node(2), node(3)))
    assert feeder.lookup(8) is None  # not read yet
    assert feeder.ready().tolist() == [1, 2, 3]
    assert feeder.children(2).tolist() == [8]
    n = feeder.lookup(8)
    assert n is not None
    assert (n.name, n.type, n.start_time_micros, n.duration_micros) == ("mm�", 7, 4, 5)
    assert (n.is_cpu_op, n.comm_size, n.comm_src, n.pg_name) == (True, -1, -2, "tp")
    assert (n.num_ops, n.tensor_size, n.comm_type, n.comm_dst, n.comm_tag) == (0, 0, -1, -1, 0)
    assert (n.data_deps, n.ctrl_deps, n.involved_dim) == ([1, 2, 2], [3], [True, False, True])
    assert (n.attr("scale"), n.attr("raw"), n.attr("none", 3)) == (0.5, b"\xfe", 3)
    assert n.attrs["comm_size"] == 2**64 - 1
    assert n.bytes == message


def test_a_node_outlives_its_turn() -> None:
    names = [n.name for n in [*Feeder(trace(node(1, name="a"), node(2, name="b")))]]
    assert names == ["a", "b"]


def frontier_of(graph: Sequence[tuple[int, list[int]]], drain: bool = True) -> core.Frontier:
    frontier = core.Frontier()
    ids = np.array([id for id, _ in graph], np.uint64)
    offsets = np.cumsum([0, *(len(deps) for _, deps in graph)], dtype=np.int64)
    deps = np.array([dep for _, deps in graph for dep in deps], np.uint64)
    frontier.add(ids, offsets, deps, drain)
    return frontier


def test_frontier_lists_what_is_missing_and_one_cycle() -> None:
    frontier = frontier_of([(1, [50]), (2, [50, 40]), (3, [4]), (4, [5]), (5, [3, 1]), (6, [])])
    assert frontier.waiting() == 5
    assert frontier.missing(10, 10) == [(40, [2]), (50, [1, 2])]
    assert frontier.missing(1, 10) == [(40, [2])]
    assert frontier.cycle().tolist() == [3, 5, 4]
    frontier.release_missing()
    assert frontier.drain() == 2
    assert frontier.waiting() == 3


def test_frontier_without_trouble() -> None:
    for seed in range(5):
        frontier = frontier_of(random_graph(random.Random(seed), 3000))
        assert (frontier.waiting(), frontier.missing_count(), len(frontier.cycle())) == (0, 0, 0)


def test_finished_ids_are_remembered_exactly() -> None:
    """Sparse, dense and mixed ids: a second node of the same id is noticed, no other ever."""
    rng = random.Random(3)
    ids = [*range(1000), *range(2**64 - 300, 2**64), *(rng.randrange(2**64) for _ in range(5000))]
    ids = list(dict.fromkeys(ids))
    rng.shuffle(ids)
    frontier = frontier_of([(id, []) for id in ids])
    for id in ids[::50]:
        with pytest.raises(core.FormatError, match=f"node id {id} appears twice"):
            frontier.add(np.array([id], np.uint64), np.array([0, 0]), np.array([], np.uint64), True)


def test_paths_of_the_c_feeder_exist() -> None:
    paths = feeder_paths()
    assert (paths.include / "chakrakit" / "feeder.h").is_file()
    assert paths.library.is_file()
    assert paths.library.parent == paths.library_dir
