"""What recorded answers do not reach: memory modes, custom collectives, metadata groups, slots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrakit import CollectiveType, Trace, TraceBuilder, TraceSet, write
from chakrakit.errors import ConfigError, TraceError
from chakrakit.simulator.astra import AstraOptions, make_config, simulate
from support.astra_cases import case_of, coll, comp, figures, network, node, recv, run, send, system

MB = 1 << 20


def remote(kind: str, **keys: int) -> dict[str, Any]:
    given = {"memory-type": kind, "remote-mem-latency": 1000, "remote-mem-bw": 100}
    return given | {key.replace("_", "-"): value for key, value in keys.items()}


@pytest.mark.parametrize(
    ("memory", "cycles"),
    [
        (remote("PER_NPU_MEMORY_EXPANSION"), 2000),
        (remote("PER_NODE_MEMORY_EXPANSION", num_nodes=2, num_npus_per_node=2), [2000, 4000] * 2),
        (remote("MEMORY_POOL"), [2000, 4000, 6000, 8000]),
    ],
)
def test_remote_memory_is_shared_by_rank_node_or_all(memory: Any, cycles: Any) -> None:
    """A load of 100,000 bytes takes 1000 + 1000 ns; sharers are served in rank order."""
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=100_000)] for _ in range(4)]
    result = run(case_of(ranks, network(("Ring", 4)), memory=memory))
    assert figures(result)[0] == cycles


def test_memory_time_is_bytes_by_bytes_per_nanosecond() -> None:
    """By way of seconds, 200,500 B at 50 GB/s would come out as 4,009 ns and not as 4,010."""
    memory = {
        "memory-type": "PER_NPU_MEMORY_EXPANSION",
        "remote-mem-latency": 100,
        "remote-mem-bw": 50,
    }
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=200_500)] for _ in range(2)]
    result = run(case_of(ranks, network(("Ring", 2)), memory=memory))
    assert list(result.cycles) == [4_110, 4_110]


def test_memory_nodes_must_exist() -> None:
    memory = remote("PER_NODE_MEMORY_EXPANSION", num_nodes=1, num_npus_per_node=2)
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=64)] for _ in range(4)]
    with pytest.raises(TraceError, match=r"rank 2, node 0 .*memory node 1, but `num-nodes` is 1"):
        run(case_of(ranks, network(("Ring", 4)), memory=memory))


def test_one_op_of_each_kind_runs_at_a_time() -> None:
    """CPU, GPU and communication slots are apart; within one, the lowest id goes first."""
    nodes = [
        comp(9, 5),
        comp(3, 7),
        comp(4, 2, is_cpu_op=True),
        coll(5, MB, kind="broadcast"),
        coll(6, MB, kind="broadcast"),
    ]
    result = run(case_of([nodes, nodes], network(("Switch", 2))))
    ids = result.table(0)["id"].tolist()
    start = dict(zip(ids, result.start(0).tolist(), strict=True))
    assert start == {3: 0, 4: 0, 5: 0, 6: 1, 9: 7000}


def test_a_receive_needs_no_slot_and_an_early_message_waits() -> None:
    first = [send(0, 1, MB), comp(1, 1)]
    second = [comp(0, 100), recv(1, 0, MB, [0])]
    result = run(case_of([first, second], network(("Switch", 2))))
    assert result.start(1).tolist() == [0, 100_000]
    assert result.end(1).tolist() == [100_000, 100_000]
    assert result.cycles.tolist() == [20_531, 100_000]


def test_rendezvous_waits_for_the_receiver() -> None:
    """The notice of 8,192 bytes takes 1,152 ns, then the message its 20,531."""
    ranks = [[send(0, 1, MB)], [comp(0, 100), recv(1, 0, MB, [0])]]
    case = case_of(ranks, network(("Switch", 2)), args=["--rendezvous-protocol=true"])
    assert figures(run(case))[0] == 100_000 + 1_152 + 20_531


def test_metadata_nodes_define_groups() -> None:
    """PyTorch writes its process groups as JSON within quotes and brackets."""
    listed = [{"pg_name": "3", "ranks": [0, 2]}, {"pg_name": "4", "ranks": [1, 3]}]
    meta = node("METADATA_NODE", 0) | {"inputs": f"['{json.dumps(listed)}']"}
    ranks = [[meta, coll(1, MB, [0], pg_name=str(3 + r % 2))] for r in range(4)]
    result = run(case_of(ranks, network(("Switch", 4))))
    groups = {"comm_group": {"3": [0, 2], "4": [1, 3]}}
    plain = [[coll(1, MB, pg_name=str(3 + r % 2))] for r in range(4)]
    assert figures(result) == figures(run(case_of(plain, network(("Switch", 4)), **groups)))


def ring_all_reduce(position: int, ranks: int = 8) -> Trace:
    """A ring all-reduce written out: seven steps that reduce for 7 µs, seven that do not."""
    graph = TraceBuilder()
    before: list[int] = []
    for step in range(2 * (ranks - 1)):
        ends = {"src": position, "dst": (position + 1) % ranks}
        graph.send("send", **ends, size=131_072, tag=step, deps=before)
        source = (position - 1) % ranks
        got = graph.recv("recv", source, position, 131_072, tag=step, deps=before)
        reduces = step < ranks - 1
        before = [graph.comp("reduce", duration_ns=7_000, deps=[got])] if reduces else [got]
    return graph.build()


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    write(TraceSet([ring_all_reduce(p) for p in range(8)]), tmp_path / "ring.N.et")
    body = TraceBuilder()
    body.collective("sum", CollectiveType.ALL_REDUCE, MB)
    write(TraceSet([body.build() for _ in range(8)]), tmp_path / "work.N.et")
    return tmp_path


def test_a_collective_given_as_graphs(custom: Path) -> None:
    """8 ranks, messages of 131,072 bytes: 14·2941 + 7·7000."""
    given = system(all_reduce_implementation_custom=[str(custom / "ring")])
    config = make_config(given, network(("Ring", 8)), {})
    assert simulate(str(custom / "work"), config).cycles.tolist() == [90_174] * 8


def test_a_collective_given_for_one_node(custom: Path) -> None:
    (custom / "nodes.yml").write_text(f"0: {custom / 'ring'}\n")
    given = system(per_node_custom_implementation=str(custom / "nodes.yml"))
    config = make_config(given, network(("Ring", 8)), {})
    assert simulate(str(custom / "work"), config).cycles.tolist() == [90_174] * 8


def test_a_custom_collective_without_files(custom: Path) -> None:
    given = system(all_reduce_implementation_custom=[str(custom / "nothing")])
    with pytest.raises(ConfigError, match=r"custom collective .*there is no file .*nothing\.0\.et"):
        simulate(str(custom / "work"), make_config(given, network(("Ring", 8)), {}))


def test_files_and_traces_in_memory_give_the_same(tmp_path: Path) -> None:
    traces = TraceSet([_mixture(rank) for rank in range(4)])
    write(traces, tmp_path / "w.N.et")
    config = make_config(
        system(), network(("Ring", 2), ("Switch", 2)), {}, {"1": [0, 1], "2": [3, 2]}
    )
    config.system.all_reduce_implementation = ["ring", "ring"]
    files, memory = simulate(str(tmp_path / "w"), config), simulate(traces, config)
    for rank in range(4):
        assert files.table(rank)["id"].tolist() == memory.table(rank)["id"].tolist()
        assert files.start(rank).tolist() == memory.start(rank).tolist()
        assert files.end(rank).tolist() == memory.end(rank).tolist()


def _mixture(rank: int) -> Trace:
    graph = TraceBuilder()
    first = graph.comp("a", duration_ns=3_000 * (rank + 1))
    group = graph.collective(
        "g", CollectiveType.ALL_REDUCE, MB, deps=[first], pg_name="12"[rank // 2]
    )
    along = graph.collective(
        "d", CollectiveType.ALL_REDUCE, MB, deps=[group], involved_dim=[True, False]
    )
    other = graph.comp("cpu", duration_ns=9_000, is_cpu_op=True, ctrl_deps=[first])
    graph.send("to", rank, rank ^ 1, 4096, deps=[along, other])
    graph.recv("from", rank ^ 1, rank, 4096, deps=[along])
    return graph.build()


def test_a_missing_rank_file_is_named(tmp_path: Path) -> None:
    body = TraceBuilder()
    body.comp("a", duration_ns=1_000)
    write(TraceSet([body.build()]), tmp_path / "w.N.et")
    with pytest.raises(TraceError, match=r"w\.1\.et: cannot be opened"):
        simulate(str(tmp_path / "w"), make_config(system(), network(("Ring", 2)), {}))


def test_traces_that_cannot_be_written_to_are_read(tmp_path: Path) -> None:
    body = TraceBuilder()
    body.comp("a", duration_ns=1_000)
    write(TraceSet([body.build()] * 2), tmp_path / "w.N.et")
    for file in tmp_path.iterdir():
        file.chmod(0o444)
    result = simulate(str(tmp_path / "w"), make_config(system(), network(("Ring", 2)), {}))
    assert result.cycles.tolist() == [1_000, 1_000]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_cut_file_says_where(tmp_path: Path, cut: int) -> None:
    body = TraceBuilder()
    body.collective("sum", CollectiveType.ALL_REDUCE, MB)
    write(TraceSet([body.build()] * 2), tmp_path / "w.N.et")
    path = tmp_path / "w.1.et"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(TraceError, match=r"w\.1\.et at byte \d+: "):
        simulate(str(tmp_path / "w"), make_config(system(), network(("Ring", 2)), {}))


def test_injection_scales_the_endpoint_delay_of_the_file_only() -> None:
    ranks = [[coll(0, MB)] for _ in range(4)]
    scaled = run(case_of(ranks, network(("Ring", 4)), args=["--injection-scale=2.5"]))
    written = run(case_of(ranks, network(("Ring", 4)), system(endpoint_delay=25)))
    assert figures(scaled) == figures(written)
    absent = case_of(ranks, network(("Ring", 4)), system(endpoint_delay=None))
    assert figures(run(absent | {"args": ["--injection-scale=2.5"]})) == figures(run(absent))


def test_numbers_may_be_written_in_any_way() -> None:
    """YAML 1.1 takes 1e3 for text, and JSON writers turn 10 into 10.0."""
    net = network(("Ring", 4)) | {"latency": ["5e2"], "bandwidth": [50]}
    ranks = [[coll(0, MB)] for _ in range(4)]
    odd = run(case_of(ranks, net, system(endpoint_delay=10.0, preferred_dataset_splits=4.0)))
    assert figures(odd) == figures(run(case_of(ranks, network(("Ring", 4)))))


def test_ranks_beyond_the_network_are_left_out_with_a_note(tmp_path: Path) -> None:
    body = TraceBuilder()
    body.comp("a", duration_ns=1_000)
    write(TraceSet([body.build()] * 3), tmp_path / "w.N.et")
    result = simulate(str(tmp_path / "w"), make_config(system(), network(("Ring", 2)), {}))
    assert result.cycles.tolist() == [1_000, 1_000]
    assert "the network has 2 ranks" in str(result.config.ignored[0])


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="--queues is 0"):
        AstraOptions(queues=0)
