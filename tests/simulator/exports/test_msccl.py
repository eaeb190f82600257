"""MSCCL's XML out and in: every algorithm computes its collective, and a round trip keeps its messages."""

from __future__ import annotations

from collections import defaultdict, deque
from random import Random
from xml.etree import ElementTree

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.simulator.collectives import ALGORITHMS
from chakrakit.simulator.exports import write_msccl
from chakrakit.sources.foreign import parse_msccl
from chakrakit.trace.model import CollectiveType
from support.commands import data, succeeded

KINDS = {
    "all-reduce": CollectiveType.ALL_REDUCE,
    "all-gather": CollectiveType.ALL_GATHER,
    "reduce-scatter": CollectiveType.REDUCE_SCATTER,
}


def workload(kind, members=8, size=1 << 20):
    traces = []
    for _ in range(members):
        builder = ck.TraceBuilder()
        builder.collective("c", kind, size)
        traces.append(builder.build())
    return ck.TraceSet(traces)


def exported(folder, name, algorithm, members=8):
    path = folder / "a.xml"
    write_msccl(workload(KINDS[name], members), path, algorithms={name: algorithm})
    return path


class Gpus:
    """Runs an algorithm step by step in a random order that thread blocks and dependencies allow.

    A chunk holds the contributions that were added up in it, as (GPU, chunk) counts.
    """

    def __init__(self, text, seed):
        root = ElementTree.fromstring(text)
        self.rng = Random(seed)
        self.blocks, self.chunks = {}, {}
        for gpu in root.findall("gpu"):
            g = int(gpu.get("id"))
            for c in range(int(root.get("nchunksperloop"))):
                self.chunks[g, c] = {(g, c): 1}
            for block in gpu.findall("tb"):
                peers = int(block.get("send")), int(block.get("recv"))
                self.blocks[g, int(block.get("id"))] = (*peers, block.findall("step"))
        self.at = dict.fromkeys(self.blocks, 0)
        self.wires = defaultdict(deque)

    def run(self):
        while ready := [b for b in self.blocks if self._can(b)]:
            self._do(self.rng.choice(ready))
        assert all(self.at[b] == len(steps) for b, (*_, steps) in self.blocks.items())
        assert not any(self.wires.values())
        return self.chunks

    def _can(self, place):
        _, source, steps = self.blocks[place]
        if self.at[place] == len(steps):
            return False
        step = steps[self.at[place]]
        block, number = int(step.get("depid")), int(step.get("deps"))
        if block >= 0 and self.at[place[0], block] <= number:
            return False
        return step.get("type") in ("s", "nop") or bool(self.wires[source, place[0]])

    def _do(self, place):
        gpu, (to, source, steps) = place[0], self.blocks[place]
        step = steps[self.at[place]]
        first, count = int(step.get("srcoff")), int(step.get("cnt"))
        if step.get("type") == "s":
            self.wires[gpu, to].append([dict(self.chunks[gpu, first + i]) for i in range(count)])
        elif step.get("type") != "nop":
            for i, sums in enumerate(self.wires[source, gpu].popleft()):
                own = self.chunks[gpu, first + i] if step.get("type") == "rrc" else {}
                keys = {**own, **sums}
                self.chunks[gpu, first + i] = {k: own.get(k, 0) + sums.get(k, 0) for k in keys}
        self.at[place] += 1


def wanted(name, members, chunks, pieces):
    """Whether every chunk that a collective promises holds each contribution once."""
    share = pieces // members
    for (gpu, chunk), sums in chunks.items():
        owner = chunk // share if share else 0
        if name == "all-gather":
            assert sums == {(owner, chunk): 1}
        elif name == "all-reduce" or owner == gpu:
            assert sums == {(g, chunk): 1 for g in range(members)}


CASES = [
    (name, algorithm, members)
    for name in KINDS
    for algorithm in ALGORITHMS[name]
    for members in (4, 8)
    if algorithm
    not in ("in-switch", "hierarchical")  # which need a machine with switches, or nodes
]


@pytest.mark.first(6)
@pytest.mark.parametrize(("name", "algorithm", "members"), CASES)
def test_an_algorithm_computes_its_collective_in_any_order(tmp_path, name, algorithm, members):
    text = exported(tmp_path, name, algorithm, members).read_text()
    pieces = int(ElementTree.fromstring(text).get("nchunksperloop"))
    for seed in range(3):
        wanted(name, members, Gpus(text, seed).run(), pieces)


def test_a_round_trip_keeps_messages_bytes_and_what_each_waits_for(tmp_path, monkeypatch):
    """Through a workload, whose messages are written again: the same sends, receives and total time."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    first = exported(tmp_path, "all-reduce", "ring")
    second = tmp_path / "b.xml"
    succeeded("export", first, second, "--to", "msccl")
    a, b = (parse_msccl(p.read_bytes(), "x") for p in (first, second))
    assert len(a.messages) == len(b.messages) == 2 * 7 * 8
    assert sorted((m.src, m.dst) for m in a.messages) == sorted((m.src, m.dst) for m in b.messages)
    infos = [data("info", p)["communication"] for p in (first, second)]
    assert infos[0] == infos[1]
    assert infos[0][0]["bytes"] == 2 * 7 * (1 << 20)
    times = [data("simulate", p, "--machine", "dgx-h100")["makespan_ns"] for p in (first, second)]
    assert times[0] == times[1] > 0


def test_what_msccl_has_no_place_for_is_said(tmp_path):
    builder = ck.TraceBuilder()
    builder.collective("c", CollectiveType.ALL_REDUCE, 8)
    builder.collective("c", CollectiveType.ALL_GATHER, 8)
    with pytest.raises(ConfigError, match="holds one collective, and these are 2"):
        write_msccl(ck.TraceSet([builder.build(), builder.build()]), tmp_path / "x.xml")
    with pytest.raises(ConfigError, match="only all-reduce"):
        write_msccl(workload(CollectiveType.ALL_TO_ALL), tmp_path / "x.xml")
    alone = ck.TraceBuilder()
    alone.comp("a", duration_ns=5)
    with pytest.raises(ConfigError, match="nothing in these traces communicates"):
        write_msccl(ck.TraceSet([alone.build()]), tmp_path / "x.xml")
