"""Recordings written by hand, as the observer would, and the real ones kept with the tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from chakrakit.sources.pytorch.linking import link
from chakrakit.trace.sets import Run, TraceSet
from support import paths

DATA = paths.DATA / "pytorch"


@cache
def linked(name: str) -> Run:
    """A recording kept with the tests, linked without options; once for all tests of a process."""
    return link([DATA / name])[0]


ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
EMBEDDING = (
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"
)
ALL_REDUCE = (
    "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
    "__torch__.torch.classes.c10d.ReduceOp reduce_op, Tensor? sparse_indices, bool async_op=True, "
    "int timeout=-1) -> (Tensor[], __torch__.torch.classes.c10d.Work)"
)
FUNCTIONAL = "_c10d_functional::all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor"


def tensor(storage: int, *shape: int, dtype: str = "float", offset: int = 0) -> dict[str, Any]:
    """A contiguous tensor as one argument."""
    width = {"float": 4, "double": 8, "long int": 8, "bool": 1}[dtype]
    count = 1
    strides: list[int] = []
    for n in reversed(shape):
        strides.insert(0, count)
        count *= n
    value = [1000 + storage, storage, offset, count, width, "cpu"]
    return {"value": value, "shape": list(shape), "type": f"Tensor({dtype})", "strides": strides}


def plain(value: Any, kind: str) -> dict[str, Any]:
    """A number, a string or nothing."""
    return {"value": value, "shape": [], "type": kind, "strides": []}


def several(*items: dict[str, Any]) -> dict[str, Any]:
    """A list of tensors as one argument."""
    kinds = ",".join(i["type"] for i in items)
    return {
        "value": [i["value"] for i in items],
        "shape": [i["shape"] for i in items],
        "type": f"GenericList[{kinds}]",
        "strides": [i["strides"] for i in items],
    }


class Sheet:
    """An observer file; each call adds one operator."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def op(
        self,
        name: str,
        schema: str,
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]] | None = None,
        parent: int = 2,
    ) -> int:
        """An operator; gives its id, which can be the parent of others."""
        number = 10 + len(self.nodes)
        attributes = {"rf_id": number, "tid": 1, "op_schema": schema, "scope": 0}
        self.nodes.append(
            {
                "id": number,
                "name": name,
                "ctrl_deps": parent,
                "inputs": _side(inputs),
                "outputs": _side(outputs or []),
                "attrs": [{"name": n, "type": "x", "value": v} for n, v in attributes.items()],
            }
        )
        return number

    def groups(self, *groups: tuple[str, list[int]]) -> None:
        """The process groups of the job."""
        said = [{"pg_name": n, "ranks": r, "group_size": len(r)} for n, r in groups]
        self.op("## process_group:init ##", "", [plain(json.dumps(said), "String")])

    def write(self, path: Path) -> Path:
        """The file."""
        whole = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": self.nodes}
        path.write_text(json.dumps(whole))
        return path

    def traces(self, folder: Path) -> TraceSet:
        """The recording, linked."""
        return link([self.write(folder / "et_0.json")])[0]


def _side(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{w}s": [i[w] for i in items] for w in ("value", "shape", "type")} | {
        "strides": [i["strides"] for i in items]
    }
