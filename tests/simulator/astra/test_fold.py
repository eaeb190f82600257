"""Folding is never wrong: symmetric cases fold, near-symmetric ones agree with simulating every rank."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.astra_cases import Case, case_of, coll, comp, network, recv, run, send, system
from support.examples import examples

MB = 1 << 20
SHAPES = ("Ring", "FullyConnected", "Switch")


def layers(size: int = MB, kind: str = "all_reduce") -> list[Any]:
    """Compute, then a collective beside more compute, then another collective."""
    return [
        comp(0, 5),
        coll(1, size, [0], kind),
        comp(2, 7, [0]),
        coll(3, size // 2, [1, 2], "all_gather"),
        comp(4, 3, [3]),
    ]


def symmetric(shape: str = "Switch", ranks: int = 8, algorithm: str = "ring", **keys: Any) -> Case:
    graphs = [layers() for _ in range(ranks)]
    return case_of(graphs, network((shape, ranks)), system(algorithm), **keys)


def grouped(ranks: int = 16, tensor: int = 4, **keys: Any) -> Case:
    """Tensor-parallel groups of neighbours and data-parallel groups across them, on a switch."""
    inner = {1 + i: list(range(i * tensor, (i + 1) * tensor)) for i in range(ranks // tensor)}
    outer = {100 + i: list(range(i, ranks, tensor)) for i in range(tensor)}
    graphs = [
        [
            comp(0, 5),
            coll(1, MB, [0], pg_name=str(1 + r // tensor)),
            comp(2, 9, [1]),
            coll(3, 2 * MB, [2], pg_name=str(100 + r % tensor)),
        ]
        for r in range(ranks)
    ]
    groups = {str(k): v for k, v in (inner | outer).items()}
    return case_of(graphs, network(("Switch", ranks)), comm_group=groups, **keys)


def same(case: Case) -> Any:
    """The folded result, after checking every node of every rank against the unfolded one."""
    folded, plain = run(case, fold=True), run(case, fold=False)
    assert folded.cycles.tolist() == plain.cycles.tolist()
    assert folded.exposed.tolist() == plain.exposed.tolist()
    for rank in range(folded.ranks):
        np.testing.assert_array_equal(folded.start(rank), plain.start(rank))
        np.testing.assert_array_equal(folded.end(rank), plain.end(rank))
    return folded


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct2", "halvingDoubling"])
def test_equal_ranks_fold_into_one(shape: str, algorithm: str) -> None:
    result = same(symmetric(shape, 8, algorithm))
    assert result.fold_factor == 8


@pytest.mark.parametrize("shape", ["FullyConnected", "Switch"])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "halvingDoubling"])
def test_equal_ranks_fold_with_congestion(shape: str, algorithm: str) -> None:
    assert same(symmetric(shape, 8, algorithm, backend="aware")).fold_factor >= 4


def test_a_ring_of_neighbours_folds_with_congestion() -> None:
    assert same(symmetric("Ring", 8, "ring", backend="aware")).fold_factor == 8


def test_several_dimensions_fold() -> None:
    net = network(("Ring", 4), ("FullyConnected", 2), ("Switch", 4))
    case = case_of(
        [layers() for _ in range(32)], net, system(["ring", "direct", "halvingDoubling"])
    )
    assert same(case).fold_factor == 32


def test_groups_fold_by_position() -> None:
    result = same(grouped())
    assert result.fold_factor >= 4


def test_stages_of_a_pipeline_fold_each_into_one() -> None:
    """Four stages of four ranks: the stages differ, the ranks of a stage do not."""
    stages, width = 4, 4
    graphs = []
    for rank in range(stages * width):
        stage = rank // width
        nodes = [comp(0, 10 + stage)]
        if stage > 0:
            nodes.append(recv(1, rank - width, MB, []))
        nodes.append(comp(2, 20, [n["id"] for n in nodes]))
        if stage < stages - 1:
            nodes.append(send(3, rank + width, MB, [2]))
        graphs.append(nodes)
    result = same(case_of(graphs, network(("Switch", stages * width))))
    assert result.fold_factor == 4


def test_ids_may_differ_between_folded_ranks() -> None:
    graphs = [[coll(rank, MB)] for rank in range(8)]
    assert same(case_of(graphs, network(("Switch", 8)))).fold_factor == 8


def test_two_queues_fold() -> None:
    graphs = [[comp(0, 5), coll(1, MB, [0])] for _ in range(8)]
    case = case_of(graphs, network(("Ring", 8)), args=["--num-queues-per-dim=2"])
    assert same(case).fold_factor >= 4


def changed(case: Case, rank: int, node: int, **keys: Any) -> Case:
    twisted = copy.deepcopy(case)
    entry = twisted["workload"]["ranks"][rank][node]
    for key, value in keys.items():
        (entry if key in entry else entry["attrs"])[key] = value
    return twisted


@pytest.mark.parametrize("backend", ["unaware", "aware"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_rank_that_starts_later(shape: str, backend: str) -> None:
    same(changed(symmetric(shape, backend=backend), 5, 0, dur_us=6))


@pytest.mark.parametrize("shape", SHAPES)
def test_one_byte_more_in_a_message(shape: str) -> None:
    """Each half of the ranks sends to the other; one message is a byte longer on both sides."""
    graphs = [
        [send(0, (r + 4) % 8, MB + (r == 2)), recv(1, (r + 4) % 8, MB + (r == 6)), comp(2, 5, [1])]
        for r in range(8)
    ]
    result = same(case_of(graphs, network((shape, 8))))
    assert not result.folded


def test_one_byte_more_in_one_groups_collective() -> None:
    case = grouped()
    for rank in range(4):
        case = changed(case, rank, 1, comm_size=MB + 4096)
    result = same(case)
    cycles = result.cycles.tolist()
    assert min(cycles[:4]) > max(cycles[4:])
    assert result.fold_factor == 4


def test_a_group_in_another_order() -> None:
    """On a ring network the order of a group's list is the distance its messages go."""
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        graphs = [[coll(0, MB, pg_name=str(1 + r // 4))] for r in range(8)]
        groups = {"1": order, "2": [4, 5, 6, 7]}
        same(case_of(graphs, network(("Ring", 8)), comm_group=groups))


def test_groups_that_cross_a_dimension_elsewhere() -> None:
    """Two groups inside the first dimension, two across it: the links they use differ."""
    groups = {"1": [0, 1], "2": [2, 3], "3": [4, 6], "4": [5, 7]}
    of = {rank: name for name, ranks in groups.items() for rank in ranks}
    graphs = [[coll(0, MB, pg_name=of[r])] for r in range(8)]
    net = network(("Ring", 4), ("Switch", 2))
    net["bandwidth"] = [100.0, 25.0]
    same(case_of(graphs, net, system(["ring", "ring"]), comm_group=groups))


def test_a_tie_that_depends_on_rank_numbers_is_not_folded() -> None:
    """Messages both ways meet at one tick: which comes first depends on who is who."""
    graphs = [
        [send(0, (r + 1) % 4, MB), recv(1, (r - 1) % 4, MB), comp(2, 5, [0]), comp(3, 9, [1])]
        for r in range(4)
    ]
    result = same(case_of(graphs, network(("Switch", 4))))
    assert not result.folded
    assert "depends on rank numbers" in result.why_not_folded


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"args": ["--rendezvous-protocol=true"]}, "rendezvous"),
        ({"system": system("doubleBinaryTree")}, "doubleBinaryTree"),
        (
            {"backend": "aware", "system": system("direct"), "network": network(("Ring", 8))},
            "share a link",
        ),
    ],
)
def test_what_is_not_folded_says_why(change: dict[str, Any], reason: str) -> None:
    case = case_of([[coll(0, MB)] for _ in range(8)], network(("Switch", 8))) | change
    result = same(case)
    assert reason in result.why_not_folded


MICROS = st.integers(0, 3)


@pytest.mark.slow
@examples(150)
@given(
    shape=st.sampled_from(SHAPES),
    algorithm=st.sampled_from(["ring", "direct", "direct2", "halvingDoubling"]),
    aware=st.booleans(),
    chunks=st.integers(1, 4),
    queues=st.sampled_from([1, 2, 4]),
    splits=st.integers(1, 6),
    micros=st.lists(MICROS, min_size=2, max_size=2),
    kinds=st.lists(
        st.sampled_from(["all_reduce", "all_gather", "reduce_scatter"]), min_size=1, max_size=3
    ),
    late=st.one_of(st.none(), st.integers(0, 7)),
    size=st.integers(64, 1 << 16),
)
def test_any_mixture_agrees(
    shape: str,
    algorithm: str,
    aware: bool,
    chunks: int,
    queues: int,
    splits: int,
    micros: list[int],
    kinds: list[str],
    late: int | None,
    size: int,
) -> None:
    graphs = []
    for rank in range(8):
        nodes = [comp(0, micros[0] + (rank == late))]
        for kind in kinds:
            nodes.append(coll(len(nodes), size, [len(nodes) - 1], kind))
            nodes.append(comp(len(nodes), micros[1], [0]))
        graphs.append(nodes)
    given_system = system(
        algorithm, active_chunks_per_dimension=chunks, preferred_dataset_splits=splits
    )
    same(
        case_of(
            graphs,
            network((shape, 8)),
            given_system,
            backend="aware" if aware else "unaware",
            args=[f"--num-queues-per-dim={queues}"],
        )
    )


@examples(100)
@given(
    algorithms=st.lists(
        st.sampled_from(["ring", "direct", "halvingDoubling"]), min_size=2, max_size=2
    ),
    shapes=st.lists(st.sampled_from(SHAPES), min_size=2, max_size=2),
    chunks=st.integers(1, 4),
    queues=st.sampled_from([1, 2]),
    baseline=st.booleans(),
    kind=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
    stage=st.one_of(st.none(), st.integers(0, 1)),
)
def test_two_dimensions_agree(
    algorithms: list[str],
    shapes: list[str],
    chunks: int,
    queues: int,
    baseline: bool,
    kind: str,
    stage: int | None,
) -> None:
    """`stage` makes one half of the ranks slower, so that there are two classes."""
    if kind == "all_to_all":
        algorithms = ["direct" if a == "halvingDoubling" else a for a in algorithms]
    graphs = [
        [comp(0, 2 + (stage is not None and rank // 4 == stage)), coll(1, 1 << 16, [0], kind)]
        for rank in range(8)
    ]
    keys = {"collective_optimization": "baseline"} if baseline else {}
    given_system = system(algorithms, active_chunks_per_dimension=chunks, **keys)
    net = network((shapes[0], 4), (shapes[1], 2))
    same(case_of(graphs, net, given_system, args=[f"--num-queues-per-dim={queues}"]))
