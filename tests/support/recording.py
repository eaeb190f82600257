"""Both files that PyTorch's profiler writes, made by hand event by event."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chakrakit.sources.pytorch.linking.rank import Rank, RankParts, link_rank, rank_parts
from chakrakit.sources.pytorch.read import read_kineto, read_observer


@dataclass
class Recording:
    """Both files of one process, event by event; times in µs.

    Threads and streams are numbers; a tensor is a storage number on `device`.
    """

    device: str = "cuda:0"
    events: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    kineto: dict[str, Any] = field(default_factory=dict)

    def _event(self, cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 9,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "args": args,
            }
        )

    def op(
        self, name, ts, dur, *, tid=1, reads=(), writes=(), values=None, parent=1, seq=-1, **attrs
    ):
        """A host operator, in both files."""
        number = len(self.nodes) + 1
        ins = [self._tensor(s) for s in reads] + list(values or [])
        shapes = [[4, 4] for _ in reads] + [[] for _ in values or []]
        self.nodes.append(
            {
                "id": number + 1,
                "name": name,
                "ctrl_deps": parent,
                "inputs": _io(ins, shapes),
                "outputs": _io([self._tensor(s) for s in writes], [[4, 4] for _ in writes]),
                "attrs": _attrs(rf_id=number, tid=tid, seq_id=seq, scope=0, **attrs),
            }
        )
        cat = "user_annotation" if name.startswith(("ProfilerStep", "gloo:")) else "cpu_op"
        self._event(cat, name, tid, ts, dur, **{"Record function id": number})
        return number + 1

    def call(self, name, ts, dur, *, tid=1, corr=0):
        self._event("cuda_runtime", name, tid, ts, dur, correlation=corr)

    def kernel(self, name, ts, dur, *, stream=7, corr=0, cat="kernel", **args):
        self._event(cat, name, stream, ts, dur, stream=stream, device=0, correlation=corr, **args)

    def sync(self, kind, ts, dur, *, stream=-1, corr=0, **args):
        self._event("cuda_sync", kind, stream, ts, dur, stream=stream, correlation=corr, **args)

    def launch(self, ts, *, start, dur, stream=7, tid=1, corr, name="k"):
        """A launch call and its kernel."""
        self.call("cudaLaunchKernel", ts, 2, tid=tid, corr=corr)
        self.kernel(name, start, dur, stream=stream, corr=corr)

    def _tensor(self, storage: int) -> list[Any]:
        return [storage + 100, storage, 0, 16, 4, self.device]

    def observer_json(self) -> str:
        root = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1}
        head = {"schema": "1.1.1-chakra.0.0.4", "pid": 9, "nodes": [*self.nodes, root]}
        return json.dumps(head)

    def kineto_json(self) -> str:
        return json.dumps({"schemaVersion": 1, **self.kineto, "traceEvents": self.events})

    def parts(self) -> RankParts:
        """What Kineto's file alone says."""
        return rank_parts(0, None, read_kineto(self.kineto_json().encode()))

    def link(self, **options: Any) -> Rank:
        observer = read_observer(self.observer_json().encode())
        return link_rank(0, observer, read_kineto(self.kineto_json().encode()), **options)

    def write(self, folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / "et.json", folder / "kineto.json"]
        paths[0].write_text(self.observer_json())
        paths[1].write_text(self.kineto_json())
        return paths


def _io(values: list[Any], shapes: list[Any]) -> dict[str, Any]:
    types = ["Tensor(float)" if isinstance(v, list) else "Int" for v in values]
    return {"values": values, "shapes": shapes, "types": types, "strides": [[] for _ in values]}


def _attrs(**values: Any) -> list[dict[str, Any]]:
    return [{"name": k, "type": "uint64", "value": v} for k, v in values.items()]
