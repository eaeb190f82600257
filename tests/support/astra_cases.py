"""Runs written down as data: every input of a run and what ASTRA-sim answered.

A case is `{"backend", "network", "system", "memory"?, "comm_group"?, "args"?, "workload"}`; a workload is one
collective on every rank, or a list of nodes for each rank (`comp`, `coll`, `send`, `recv`, `node` make them).
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import chakrakit.core as core
from chakrakit.simulator.astra import AstraOptions, AstraSimulation, make_config, simulate_program
from chakrakit.simulator.astra.simulation import errors
from chakrakit.simulator.astra.workload import BITS, build_body, graph_columns
from chakrakit.trace.model import CollectiveType, NodeType

Case = dict[str, Any]
Node = dict[str, Any]

ALGORITHMS = (
    "all-reduce-implementation",
    "all-gather-implementation",
    "reduce-scatter-implementation",
    "all-to-all-implementation",
)


def read_cases(path: Path) -> Iterator[tuple[Case, dict[str, Any]]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            entry = json.loads(line)
            yield entry["case"], entry["result"]


def system(algorithm: str | list[str] = "ring", **keys: Any) -> dict[str, Any]:
    """A system file; keyword `endpoint_delay` means `endpoint-delay`, and None leaves a key out."""
    listed = [algorithm] if isinstance(algorithm, str) else algorithm
    given: dict[str, Any] = {
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        **dict.fromkeys(ALGORITHMS, listed),
    }
    given |= {key.replace("_", "-"): value for key, value in keys.items()}
    return {key: value for key, value in given.items() if value is not None}


def network(*dims: tuple[str, int]) -> dict[str, Any]:
    """50 GB/s and 500 ns in every dimension."""
    return {
        "topology": [shape for shape, _ in dims],
        "npus_count": [size for _, size in dims],
        "bandwidth": [50.0] * len(dims),
        "latency": [500.0] * len(dims),
    }


def write_files(folder: Path, sys: dict[str, Any], ranks: int = 8) -> list[str]:
    """The three files of a switch, in the order in which `--astra` takes them."""
    contents = {
        "system.json": sys,
        "network.yml": network(("Switch", ranks)),
        "memory.json": {"memory-type": "NO_MEMORY_EXPANSION"},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return [str(folder / name) for name in contents]


def node(kind: str, node_id: int, deps: Sequence[int] = (), micros: int = 0, **attrs: Any) -> Node:
    return {"id": node_id, "type": kind, "data": list(deps), "dur_us": micros, "attrs": attrs}


def comp(node_id: int, micros: int, deps: Sequence[int] = (), **attrs: Any) -> Node:
    return node("COMP_NODE", node_id, deps, micros, **attrs)


def coll(
    node_id: int, size: int, deps: Sequence[int] = (), kind: str = "all_reduce", **attrs: Any
) -> Node:
    number = int(CollectiveType[kind.upper()])
    return node("COMM_COLL_NODE", node_id, deps, comm_type=number, comm_size=size, **attrs)


def send(node_id: int, dst: int, size: int, deps: Sequence[int] = (), tag: int = 0) -> Node:
    return node("COMM_SEND_NODE", node_id, deps, comm_dst=dst, comm_size=size, comm_tag=tag)


def recv(node_id: int, src: int, size: int, deps: Sequence[int] = (), tag: int = 0) -> Node:
    return node("COMM_RECV_NODE", node_id, deps, comm_src=src, comm_size=size, comm_tag=tag)


def case_of(
    ranks: list[list[Node]], net: dict[str, Any], sys: dict[str, Any] | None = None, **keys: Any
) -> Case:
    return {
        "backend": "unaware",
        "network": net,
        "system": sys or system(),
        "workload": {"kind": "graph", "ranks": ranks},
        **keys,
    }


def on_all(nodes: list[Node], net: dict[str, Any] | None = None, **keys: Any) -> Case:
    """The same nodes on every rank of a network, by default of a switch of four."""
    given = net or network(("Switch", 4))
    return case_of([nodes] * math.prod(given["npus_count"]), given, **keys)


def graphs(case: Case) -> list[list[Node]]:
    work = case["workload"]
    if work["kind"] == "graph":
        return list(work["ranks"])
    ranks = int(np.prod(case["network"]["npus_count"]))
    return [[coll(rank, work["bytes"], kind=work["coll"])] for rank in range(ranks)]


def columns(nodes: list[Node]) -> dict[str, Any]:
    """A rank's nodes as the core takes them."""
    names = ("comm_type", "comm_size", "num_ops", "tensor_size", "comm_src", "comm_dst", "comm_tag")
    given: dict[str, list[int]] = {
        name: [] for name in (*names, "is_cpu_op", "involved_dim", "group")
    }
    has, deps, offsets, texts = [], [], [0], []
    for entry in nodes:
        attrs = {name: _value(value) for name, value in entry["attrs"].items()}
        for name in (*names, "is_cpu_op"):
            given[name].append(int(attrs.get(name, 0)))
        given["group"].append(int(attrs.get("pg_name") or 0))
        dims = attrs.get("involved_dim", [])
        given["involved_dim"].append(sum(1 << k for k, used in enumerate(dims) if used))
        attrs["group"] = attrs.pop("pg_name", None)
        has.append(sum(bit for name, bit in BITS.items() if attrs.get(name) is not None))
        deps += [*entry.get("data", ()), *entry.get("ctrl", ())]
        offsets.append(len(deps))
        if "inputs" in entry:
            texts.append((entry["id"], entry["inputs"]))
    arrays = {name: np.array(values) for name, values in given.items()}
    arrays |= {
        "id": np.array([entry["id"] for entry in nodes], np.uint64),
        "type": np.array([int(NodeType[entry["type"]]) for entry in nodes]),
        "duration_micros": np.array([entry.get("dur_us", 0) for entry in nodes], np.uint64),
        "deps": np.array(deps, np.uint64),
        "dep_offsets": np.array(offsets, np.uint64),
    }
    return {**graph_columns(len(nodes), arrays, np.array(has, np.uint32)), "texts": texts}


def _value(value: Any) -> Any:
    """Recorded attributes are [oneof member, value]."""
    recorded = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
    return value[1] if recorded else value


def options(case: Case, *, fold: bool, lenient: bool = False) -> AstraOptions:
    given = dict(arg.removeprefix("--").split("=") for arg in case.get("args", []))
    return AstraOptions(
        backend=case["backend"],
        queues=int(given.get("num-queues-per-dim", 1)),
        injection_scale=float(given.get("injection-scale", 1)),
        rendezvous=given.get("rendezvous-protocol") == "true",
        lenient=lenient,
        fold=fold,
    )


def run(case: Case, *, fold: bool = True, lenient: bool = False) -> AstraSimulation:
    config = make_config(
        case["system"], case["network"], case.get("memory", {}), case.get("comm_group")
    )
    with errors():
        bodies = [
            build_body(columns(nodes), f"rank {rank}", rank, lenient=lenient)
            for rank, nodes in enumerate(graphs(case))
        ]
    program = core.astra_program(bodies, list(range(len(bodies))))
    return simulate_program(program, config, options(case, fold=fold, lenient=lenient))


def figures(result: AstraSimulation) -> tuple[Any, Any]:
    """Cycles and exposed cycles as recorded: one number where all ranks agree."""
    return _short(result.cycles), _short(result.exposed)


def _short(values: np.ndarray[Any, Any]) -> int | list[int]:
    listed: list[int] = values.tolist()
    return listed[0] if len(set(listed)) == 1 else listed
