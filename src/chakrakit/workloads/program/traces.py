"""Programs as traces, and ranks bound to them: the last step from arrays to a TraceSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.trace.communication import Binding
from chakrakit.trace.memory import HELD_KIND, StatePart, state_attribute
from chakrakit.trace.model import EdgeKind, Edges, Metadata, NodeType, Trace
from chakrakit.workloads.description import Mesh
from chakrakit.workloads.layers import BYTES
from chakrakit.workloads.program.layout import HeldWeight, WorkloadLayout
from chakrakit.workloads.program.program import StageProgram
from chakrakit.workloads.program.step_end import optimizer_state
from chakrakit.workloads.program.tables import PHASES, TextTables

# --- memory of a rank ---------------------------------------------------------------------------


def model_state(layout: WorkloadLayout, weights: Sequence[HeldWeight]) -> list[StatePart]:
    """Parameters, gradients and optimizer state on a rank of a stage."""
    step, data = layout.workload.step, layout.workload.plan.data
    if step.kind != "train":
        return [StatePart("parameters", layout.weight_bytes([h.weight for h in weights]))]
    widths = {
        "parameters": (BYTES[step.dtype], data == "fsdp"),
        "gradients": (BYTES[step.grad_dtype or "fp32"], not layout.keeps_whole_gradients),
        "optimizer": (optimizer_state(step), data in ("zero1", "zero2", "fsdp")),
    }
    parts = []
    for expert in (False, True):
        count = layout.unsharded_elements([h.weight for h in weights if h.weight.expert == expert])
        role = layout.sync_role(expert)
        for kind, (width, sharded) in widths.items():
            whole = StatePart(kind, width * count, role if sharded else "", count, width)
            parts.append(whole.resharded(layout.mesh.degree(role)) if sharded else whole)
    return [part for part in parts if part.bytes]


def header(layout: WorkloadLayout, program: StageProgram) -> dict[str, str]:
    """What a trace's header says about its rank's memory."""
    before = StatePart("kv_cache", program.held_before)
    parts = [*model_state(layout, program.weights), before]
    kind = {} if layout.workload.step.in_micro_batches else {HELD_KIND: "kv_cache"}
    return {**state_attribute(parts), **kind}


def peak_held(program: StageProgram) -> int:
    """Most bytes held at once by what nodes keep, in the order the program runs.

    A node holds what it makes while it runs, and releases what it frees when it ends.
    """
    columns = program.columns
    if len(program) == 0:
        return 0
    before = np.cumsum(columns["alloc"] - columns["free"])
    return int((before + columns["free"]).max())


def memory(layout: WorkloadLayout, program: StageProgram) -> dict[str, int]:
    """Bytes on a rank by kind, and their sum."""
    kind = "activations" if layout.workload.step.in_micro_batches else "kv_cache"
    train = layout.workload.step.kind == "train"
    bytes_of_kind = dict.fromkeys(
        ("parameters", "gradients", "optimizer") if train else ("parameters",), 0
    )
    for part in model_state(layout, program.weights):
        bytes_of_kind[part.kind] += part.bytes
    bytes_of_kind[kind] = peak_held(program) + program.held_before
    return {**bytes_of_kind, "total": sum(bytes_of_kind.values())}


_TYPES = {
    "collective": NodeType.COMM_COLL_NODE,
    "send": NodeType.COMM_SEND_NODE,
    "recv": NodeType.COMM_RECV_NODE,
}


def trace_of(
    program: StageProgram,
    book: TextTables,
    peers: dict[str, int],
    rank: int,
    version: str,
    header: Mapping[str, str] | None = None,
    *,
    per_step: int | None = None,
) -> Trace:
    """The program as its first rank's trace; groups are named by role.

    A program of training says which step its rows are of, `per_step` micro-batches each; of inference,
    iterations repeat as they do.
    """
    c = program.columns
    micro_batch, steps = _steps(c, per_step)
    types = np.array([_TYPES.get(t, NodeType.COMP_NODE) for t in book.ops.texts], np.int32)[c["op"]]
    compute, collective = types == NodeType.COMP_NODE, types == NodeType.COMM_COLL_NODE
    send, recv = types == NodeType.COMM_SEND_NODE, types == NodeType.COMM_RECV_NODE
    updates = np.array([op == "optimizer" for op in book.ops.texts])[c["op"]]
    peer = np.array([peers.get(r, -1) for r in book.roles.texts])[c["role"]]
    data = {
        "name": _names(c, book),
        "type": types,
        "inputs_shapes": _texts(book.shapes.texts, c["shapes"], (c["shapes"] > 0) & ~updates),
        "is_cpu_op": np.zeros(len(types), np.bool_),
        "num_ops": _where(c["flops"] + c["vector_ops"], compute),
        "tensor_size": _where(c["bytes"], compute),
        "dtype": _texts(book.dtypes.texts, c["dtype"], compute),
        "op_type": _texts(book.ops.texts, c["op"], compute),
        "shards": _texts(book.shapes.texts, c["shapes"], (c["shapes"] > 0) & updates),
        "comm_type": _where(c["comm"], collective),
        "comm_size": _where(c["comm_size"], ~compute),
        "out_size": _where(c["out_size"], collective),
        "comm_dtype": _texts(book.dtypes.texts, c["dtype"], ~compute & (c["dtype"] > 0)),
        "pg_name": _texts(book.roles.texts, c["role"], collective),
        "comm_src": _where(np.where(send, rank, peer), send | recv),
        "comm_dst": _where(np.where(recv, rank, peer), send | recv),
        "comm_tag": _where(c["tag"], send | recv),
        "stream": c["stream"],
        "phase": _texts(PHASES, c["phase"], np.ones(len(types), np.bool_)),
        "layer": _where(c["layer"], c["layer"] >= 0),
        "micro_batch": _where(micro_batch, micro_batch >= 0),
        "chunk": _where(c["chunk"], c["chunk"] > 0),
        "mem_alloc": _where(c["alloc"], c["alloc"] > 0),
        "mem_free": _where(c["free"], c["free"] > 0),
        **steps,
    }
    return Trace.from_columns(data, _edges(program), Metadata.of(version, **(header or {})))


def _steps(c: Mapping[str, I64], per_step: int | None) -> tuple[I64, dict[str, I64]]:
    """Micro-batches numbered within their step; the step, and which of several versions the weights have."""
    number = c["micro_batch"]
    if per_step is None:
        return number, {}
    if "version" not in c or not c["version"].any():
        return number, {"step": np.zeros(len(number), np.int64)}
    step = np.where(number >= 0, number // per_step, c["version"])
    return np.where(number >= 0, number % per_step, -1), {
        "step": step,
        "weights_version": c["version"],
    }


def _edges(program: StageProgram) -> Edges:
    data, control = program.data, program.control
    kinds = np.repeat([EdgeKind.DATA, EdgeKind.CTRL], [len(data), len(control)]).astype(np.int8)
    pairs = np.concatenate([data, control]).astype(np.int32)
    return Edges.of(pairs[:, 0], pairs[:, 1], kinds)


def _where(values: I64, mask: Mask) -> pa.Array:
    return pa.array(values, mask=~mask)


def _texts(texts: Sequence[str], codes: I64, mask: Mask) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=~mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _names(c: Mapping[str, I64], book: TextTables) -> pa.Array:
    """`layers.3.attention.qkv`, made once for each layer and name."""
    width = len(book.names.texts)
    keys, rows = np.unique((c["layer"] + 1) * width + c["name"], return_inverse=True)
    texts = [
        (f"layers.{k // width - 1}." if k >= width else "") + book.names.texts[k % width]
        for k in keys.tolist()
    ]
    return pa.DictionaryArray.from_arrays(
        pa.array(rows.astype(np.int32)), pa.array(texts, pa.string())
    )


class MeshBindings:
    """Numbers the groups of a mesh and binds ranks to bodies."""

    def __init__(self, mesh: Mesh, roles: Sequence[str], first_group: int) -> None:
        self.mesh, self.roles = mesh, list(roles)
        self.groups: dict[str, list[int]] = {}
        self.names: dict[str, list[str]] = {}
        for role in self.roles:
            members = mesh.members(role)
            names = [str(first_group + len(self.groups) + i) for i in range(len(members))]
            self.groups |= dict(zip(names, members, strict=True))
            self.names[role] = names

    def bind(
        self, ranks: I64, body: int, roles: Sequence[str], peers: Sequence[str]
    ) -> dict[int, Binding]:
        """Bindings of ranks that run one body, whose peers are named for the first of them."""
        group_names = [
            [self.names[r][g] for g in self.mesh.group_of(r)[ranks].tolist()] for r in roles
        ]
        global_ranks = (ranks + self.mesh.first).tolist()
        peer_ranks = (
            [global_ranks, *(self.mesh.peers(ranks, p).tolist() for p in peers)] if peers else []
        )
        first = [column[0] for column in peer_ranks]
        return {
            rank: Binding(
                body,
                dict(zip(roles, (column[i] for column in group_names), strict=True)),
                {f: column[i] for f, column in zip(first, peer_ranks, strict=True)} if i else {},
            )
            for i, rank in enumerate(global_ranks)
        }
