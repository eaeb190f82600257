"""From files to the core's graphs: custom collectives, groups in metadata, files that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chakrakit import CollectiveType, Trace, TraceBuilder, TraceSet, write
from chakrakit.errors import ConfigError, TraceError
from chakrakit.simulator.astra import make_config, simulate
from chakrakit.simulator.astra.workload import BITS, graph_columns, is_prefix
from support.astra_cases import case_of, coll, figures, network, node, on_all, run, system

MB = 1 << 20


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


def test_what_is_not_given_is_zero_and_absent() -> None:
    columns = graph_columns(2, {"id": np.array([4, 7]), "comm_size": np.array([1, 2])})
    assert columns["has"].tolist() == [BITS["comm_size"]] * 2
    assert columns["comm_tag"].tolist() == [0, 0]
    assert columns["id"].dtype == np.uint64


def test_metadata_that_contradicts_the_groups_file_is_refused() -> None:
    listed = [{"pg_name": "3", "ranks": [0, 2]}]
    meta = node("METADATA_NODE", 0) | {"inputs": f"['{json.dumps(listed)}']"}
    case = on_all([meta, coll(1, MB, [0])], comm_group={"3": [0, 1]})
    with pytest.raises(
        ConfigError, match=r"metadata node 0: group 3 is \[0, 2\] here and \[0, 1\]"
    ):
        run(case)


def test_a_prefix_is_one_of_a_file_for_each_rank(tmp_path: Path) -> None:
    (tmp_path / "w.0.et").write_bytes(b"")
    assert is_prefix(str(tmp_path / "w"))
    assert not is_prefix(str(tmp_path / "w.0.et"))
