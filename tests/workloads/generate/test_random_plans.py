"""Two hundred random plans: valid across ranks, run to the end, and say what their dry run says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chakrakit import CollectiveType, NodeType, read, write
from chakrakit.trace.validation import validate
from chakrakit.workloads.generate import Generated, dry_run, generate, generated
from chakrakit.workloads.generate.figures import ClassFigures
from support.joined import join
from support.oracle import bodies_of, message
from support.random_plans import random_workload

BLOCKS, EACH = 20, 10
MATRIX = ("matmul", "attention")


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_plans(block: int, tmp_path: Path) -> None:
    for number in range(EACH):
        rng = Random(block * EACH + number)
        made = generated(random_workload(rng))
        traces = made.traces()
        assert not [f for f in validate(traces).findings if f.severity == "error"], made.workload
        joined = join(traces)
        joined.run(np.ones(joined.n, np.int64))
        _check_against_dry_run(made, traces, rng, tmp_path / str(number))


def _check_against_dry_run(made: Generated, traces, rng: Random, folder: Path) -> None:
    figures = {
        int(r): f
        for c, f in zip(made.classes, dry_run(made).per_rank, strict=True)
        for r in c.ranks
    }
    assert sorted(figures) == list(traces.ranks)
    for rank in rng.sample(traces.ranks, min(3, len(traces))):
        file = folder / f"w.{rank}.et"
        folder.mkdir(exist_ok=True)
        write(traces.trace(rank), file)
        _check_file(file, rank, figures[rank])


def _check_file(file: Path, rank: int, expected: ClassFigures) -> None:
    """One rank's file, as the protobuf runtime reads it."""
    header, *bodies = bodies_of(file.read_bytes())
    assert message("GlobalMetadata").FromString(header).version
    nodes = [message("Node").FromString(b) for b in bodies]
    flops = vector = held = peak = 0
    comm: Counter = Counter()
    for node in nodes:
        values = {a.name: getattr(a, a.WhichOneof("value")) for a in node.attr}
        if node.type == NodeType.COMP_NODE:
            flops += values["num_ops"] * (values["op_type"] in MATRIX)
            vector += values["num_ops"] * (values["op_type"] not in MATRIX)
        elif node.type == NodeType.COMM_COLL_NODE:
            comm[CollectiveType(values["comm_type"]).name] += values["comm_size"]
        else:
            own = "comm_src" if node.type == NodeType.COMM_SEND_NODE else "comm_dst"
            assert values[own] == rank
            comm["SEND" if own == "comm_src" else "RECV"] += values["comm_size"]
        held += values.get("mem_alloc", 0)
        peak = max(peak, held)
        held -= values.get("mem_free", 0)
    totals: Counter = Counter()
    for c in expected.comm:
        totals[c.type] += c.bytes
    assert (flops, vector, len(nodes)) == (expected.flops, expected.vector_ops, expected.nodes)
    assert comm == totals
    assert (peak, held) == (expected.memory["activations"], 0)


def test_same_input_same_bytes(tmp_path: Path) -> None:
    workload = random_workload(Random(5))
    for name in ("a", "b"):
        write(generate(workload), tmp_path / name)
    files = sorted(f.name for f in (tmp_path / "a").iterdir())
    assert files == sorted(f.name for f in (tmp_path / "b").iterdir())
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_folded_and_unfolded_say_the_same(tmp_path: Path) -> None:
    traces = generate(random_workload(Random(3)))
    assert traces.body_count < len(traces)
    write(traces, tmp_path / "folded")
    write(traces, tmp_path / "w.N.et")
    folded, apart = read(tmp_path / "folded"), read(tmp_path / "w")
    assert folded.groups == apart.groups
    for rank in traces.ranks:
        assert folded.trace(rank).nodes.equals(apart.trace(rank).nodes)
