"""Every attribute chakrakit knows: its meaning, unit and oneof member, and which tools write and read it.

`docs/vocabulary.md` is made from this table (`python -m chakrakit.trace.model.vocabulary`).
Other tools read exact oneof members, so the member here is what is written; any integer member is understood
on reading.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from chakrakit.trace.model.edges import EdgeForm, EdgeKind
from chakrakit.trace.model.nesting import SLACK_NS
from chakrakit.trace.model.schema import Member


@dataclass(frozen=True)
class Attribute:
    """One attribute name of a node."""

    name: str
    member: Member
    unit: str
    meaning: str
    writers: str
    readers: str


RECOMPUTED = "recompute"
"""The `phase` of rows that compute activations a second time."""
_A = Attribute
_M = Member

NODE_ATTRIBUTES: tuple[Attribute, ...] = (
    _A(
        "is_cpu_op",
        _M.bool_val,
        "",
        "runs on the host, not on the device; absent means device",
        "all",
        "feeders, ASTRA-sim",
    ),
    _A(
        "num_ops",
        _M.int64_val,
        "FLOPs",
        "floating-point operations; a multiply-add is two",
        "chakrakit, STAGE",
        "ASTRA-sim roofline, chakrakit",
    ),
    _A(
        "tensor_size",
        _M.uint64_val,
        "bytes",
        "bytes moved by a compute or memory node",
        "chakrakit, STAGE, generator",
        "ASTRA-sim roofline and memory, chakrakit",
    ),
    _A(
        "tensor_loc",
        _M.uint32_val,
        "",
        "where a memory node's tensor lives: 0 local, 1 remote",
        "–",
        "feeder v3",
    ),
    _A("comm_type", _M.int64_val, "", "CollectiveCommType of a collective", "all", "all"),
    _A(
        "comm_size",
        _M.int64_val,
        "bytes",
        "all-gather: this rank's input shard; all-reduce, reduce-scatter, all-to-all: this rank's full "
        "input; send and receive: the message",
        "all",
        "all",
    ),
    _A(
        "comm_src",
        _M.int32_val,
        "rank",
        "sender of a point-to-point message",
        "chakrakit, STAGE",
        "feeders, ASTRA-sim",
    ),
    _A(
        "comm_dst",
        _M.int32_val,
        "rank",
        "receiver of a point-to-point message",
        "chakrakit, STAGE",
        "feeders, ASTRA-sim",
    ),
    _A(
        "comm_tag",
        _M.int32_val,
        "",
        "tag that pairs a send with its receive",
        "chakrakit, STAGE",
        "feeders, ASTRA-sim",
    ),
    _A(
        "comm_priority",
        _M.int32_val,
        "",
        "priority among waiting nodes, and of a kernel on its device; larger first",
        "–",
        "feeders, ASTRA-sim, chakrakit simulate",
    ),
    _A(
        "link_priority",
        _M.int32_val,
        "",
        "class of a communication's or storage operation's traffic on links: a higher one goes first, "
        "strictly; absent means 0",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "link_weight",
        _M.int32_val,
        "",
        "its share of a full link beside others of its class, as a multiple of theirs, 1–65,535; "
        "absent means 1",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "device_share",
        _M.double_val,
        "0–1",
        "part of the device: what a compute node uses at most, what a communication node holds while it runs",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "tensor",
        _M.string_val,
        "",
        "the tensor that a memory node reads or writes, by a name that is the same wherever it is meant",
        "chakrakit offload",
        "chakrakit cache, simulate",
    ),
    _A(
        "window",
        _M.string_val,
        "",
        "window of another rank's memory that a memory node writes (put, to `comm_dst`) or reads (get, from "
        "`comm_src`), without that rank taking part",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "pieces",
        _M.int64_val,
        "",
        "separate pieces that a read or write of a store consists of, each of whole pages; absent means 1",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "unit",
        _M.string_val,
        "",
        "unit of the device that a compute node runs on (`matrix`), or shares of several "
        "(`matrix=0.75,vector=0.25`); absent means the device as a whole",
        "chakrakit units",
        "chakrakit simulate",
    ),
    _A(
        "side_unit",
        _M.string_val,
        "",
        "unit on which the same kernel does other work meanwhile, such as dequantisation",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "side_ops",
        _M.int64_val,
        "FLOPs",
        "operations of that work, in single precision",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "waves",
        _M.int64_val,
        "",
        "rounds of blocks a compute kernel runs in; absent means one",
        "chakrakit",
        "chakrakit simulate",
    ),
    _A(
        "pg_name", _M.string_val, "", "process group; empty or absent means all ranks", "all", "all"
    ),
    _A(
        "involved_dim",
        _M.bool_list,
        "",
        "network dimensions a collective uses",
        "STAGE",
        "ASTRA-sim",
    ),
    _A(
        "stream",
        _M.int64_val,
        "",
        "device stream; nodes of one stream run in order",
        "chakrakit, reference converter",
        "chakrakit",
    ),
    _A("tid", _M.int64_val, "", "host thread", "chakrakit, reference converter", "chakrakit"),
    _A(
        "fw_tid",
        _M.int64_val,
        "",
        "host thread of the matching forward operator",
        "chakrakit, reference converter",
        "chakrakit",
    ),
    _A(
        "rf_id",
        _M.int64_val,
        "",
        "PyTorch record-function id",
        "chakrakit, reference converter",
        "chakrakit",
    ),
    _A(
        "fw_parent",
        _M.int64_val,
        "",
        "as PyTorch writes it; not the forward operator",
        "chakrakit, reference converter",
        "–",
    ),
    _A(
        "seq_id",
        _M.int64_val,
        "",
        "autograd sequence number; ties forward to backward",
        "chakrakit, reference converter",
        "chakrakit",
    ),
    _A(
        "scope",
        _M.int64_val,
        "",
        "PyTorch record scope: 0 function, 1 backward, 7 user",
        "chakrakit, reference converter",
        "chakrakit",
    ),
    _A(
        "op_schema",
        _M.string_val,
        "",
        "operator schema as PyTorch prints it",
        "chakrakit, reference converter",
        "chakrakit replay",
    ),
    _A(
        "start_time_ns",
        _M.int64_val,
        "ns",
        "exact start; wins over start_time_micros",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "duration_ns",
        _M.int64_val,
        "ns",
        "exact duration; wins over duration_micros",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "edge_kinds",
        _M.bytes_val,
        "",
        "a byte per entry of data_deps, then ctrl_deps: kind in the low five bits, form in the high three",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "edge_lags_ns",
        _M.int64_list,
        "ns",
        "lag of each dependency, in the same order",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "comm_seq",
        _M.int64_val,
        "",
        "number of this collective within its group; matches ranks",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "comm_algorithm",
        _M.string_val,
        "",
        "algorithm a collective is to use, by the simulator's name; absent: chosen by whatever runs it",
        "chakrakit",
        "chakrakit",
    ),
    _A("comm_dtype", _M.string_val, "", "element type of the message", "chakrakit", "chakrakit"),
    _A(
        "in_splits",
        _M.int64_list,
        "elements",
        "input split sizes of an all-to-all",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "out_splits",
        _M.int64_list,
        "elements",
        "output split sizes of an all-to-all",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "out_size",
        _M.int64_val,
        "bytes",
        "this rank's full output of a collective",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "dtype", _M.string_val, "", "element type a compute node works in", "chakrakit", "chakrakit"
    ),
    _A(
        "phase",
        _M.string_val,
        "",
        "forward, backward, weight, recompute, sync, optimizer or other",
        "chakrakit",
        "chakrakit",
    ),
    _A("layer", _M.int64_val, "", "number of the model's layer", "chakrakit", "chakrakit"),
    _A("micro_batch", _M.int64_val, "", "number of the micro-batch", "chakrakit", "chakrakit"),
    _A(
        "weights_version",
        _M.int64_val,
        "",
        "updates of the weights that came before, on this rank",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "section",
        _M.string_val,
        "",
        "section of a model of several, such as an encoder",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "module",
        _M.string_val,
        "",
        "path of the module that issued the node",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "step",
        _M.int64_val,
        "",
        "number of the training or inference step the node belongs to; absent: none, or, if no node has it, "
        "as repeated work tells",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "own_ns",
        _M.int64_val,
        "ns",
        "time a scheduler gives the node: for a host operator without its callees and its waiting; absent "
        "means duration_ns",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "is_copy",
        _M.bool_val,
        "",
        "a cast or a copy, in traces whose names no longer say so; a host issues it sooner than others",
        "chakrakit anonymize",
        "chakrakit launched",
    ),
    _A(
        "list_tensors",
        _M.int64_val,
        "",
        "tensors in the list that the operator works on, in traces whose arguments no longer say so",
        "chakrakit anonymize",
        "chakrakit launched",
    ),
    _A("device", _M.int64_val, "", "number of the device", "chakrakit", "chakrakit"),
    _A(
        "orphan",
        _M.bool_val,
        "",
        "launched before the recorded window; outside the step",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "comm_name",
        _M.string_val,
        "",
        "raw name of a collective the schema has no type for",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "pg_inferred",
        _M.bool_val,
        "",
        "the group was inferred across ranks, not recorded",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "parent",
        _M.uint64_val,
        "id",
        "the host node that this one runs inside of; absent: none, or, if no node has it, as times tell",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "caller",
        _M.int64_val,
        "id",
        "what `parent` was called where no times tell; read, no longer written",
        "chakrakit before",
        "chakrakit",
    ),
    _A(
        "kernel_backend",
        _M.string_val,
        "",
        "as PyTorch writes it, such as triton",
        "chakrakit",
        "chakrakit replay",
    ),
    _A(
        "fused_operators",
        _M.string_val,
        "",
        "operators that a compiler put into the kernel, and how often each",
        "chakrakit capture",
        "chakrakit",
    ),
    _A("kernel_file", _M.string_val, "", "as PyTorch writes it", "chakrakit", "chakrakit replay"),
    _A(
        "grid",
        _M.string_val,
        "",
        "blocks of the launch of a generated kernel, as Kineto writes them: [8, 1, 1]",
        "chakrakit",
        "chakrakit replay",
    ),
    _A(
        "tensor_range",
        _M.string_val,
        "",
        "ranges of integer tensors, as PyTorch writes them",
        "chakrakit",
        "chakrakit replay",
    ),
    _A(
        "op_type",
        _M.string_val,
        "",
        "operator class: matmul, attention, vector, lookup, optimizer; STAGE uses letters instead",
        "chakrakit, STAGE",
        "chakrakit",
    ),
    _A("y_tensor_size", _M.uint64_val, "bytes", "STAGE's output tensor", "STAGE", "–"),
    _A("comm_group", _M.string_val, "", "STAGE's group as text", "STAGE", "–"),
    _A(
        "inputs",
        _M.string_list,
        "name, bytes, …",
        "tensors read",
        "STAGE",
        "ASTRA-sim memory tracker",
    ),
    _A(
        "outputs",
        _M.string_list,
        "name, bytes, …",
        "tensors written",
        "STAGE",
        "ASTRA-sim memory tracker",
    ),
    _A(
        "chunk",
        _M.int64_val,
        "",
        "model chunk of a pipeline stage, where not 0",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "mem_alloc",
        _M.int64_val,
        "bytes",
        "held from the node's start until another node frees them",
        "chakrakit",
        "chakrakit",
    ),
    _A(
        "shards",
        _M.string_val,
        "elements",
        "of an optimizer on shards: the group that shards, then the weights it shards, as in "
        "`dp 4096,4096 edp 512`",
        "chakrakit",
        "chakrakit scale-ranks",
    ),
    _A(
        "unsharded",
        _M.int64_list,
        "",
        "of a shard that is not a whole part: comm_size, out_size, num_ops, tensor_size and own_ns of "
        "all shards together; 0 where not needed",
        "chakrakit scale-ranks",
        "chakrakit scale-ranks",
    ),
    _A(
        "estimated_cycles",
        _M.int64_val,
        "cycles",
        "the compiler's own estimate of a node's time",
        "chakrakit capture",
        "–",
    ),
    _A(
        "comm_state", _M.string_val, "", "scheduled, started or completed", "chakrakit", "chakrakit"
    ),
    _A("operator", _M.string_val, "", "what a graph's kernel works for", "chakrakit", "chakrakit"),
    _A(
        "operator_call",
        _M.string_val,
        "",
        "which call of its capture a graph's kernel belongs to, its strides and plain values; JSON",
        "chakrakit",
        "chakrakit",
    ),
    _A("batch_tokens", _M.int64_val, "", "tokens of a serving step", "chakrakit", "chakrakit"),
    *(
        _A(f"{p}_{n}", _M.int64_val, "", f"{m} of a serving step's {p}", "chakrakit", "chakrakit")
        for p in ("context", "generation")
        for n, m in zip(
            ["requests", "q", "k", "qq", "qk"], ["requests", "Σq", "Σk", "Σq²", "Σqk"], strict=True
        )
    ),
    _A("storage", _M.string_val, "", "the store a memory node uses", "chakrakit", "chakrakit"),
    _A("mem_free", _M.int64_val, "bytes", "released when the node ends", "chakrakit", "chakrakit"),
)


@cache
def by_name() -> dict[str, Attribute]:
    """The vocabulary as a dictionary."""
    return {a.name: a for a in NODE_ATTRIBUTES}


# The page of the documentation about attributes and edges, made from the vocabulary's tables.


HEADER_ATTRIBUTES: tuple[tuple[str, str, str, str], ...] = (
    ("schema", "string_val", "version of the source's own format", "reference converter"),
    ("pid", "uint64_val", "process that was recorded", "reference converter"),
    ("time", "string_val", "when it was recorded", "reference converter"),
    ("start_ts", "uint64_val", "first time of the recording, µs", "reference converter"),
    ("finish_ts", "uint64_val", "last time of the recording, µs", "reference converter"),
    ("input_file", "string_val", "the whole text it was made from", "reference text converter"),
    (
        "model_state",
        "string_val",
        "what the rank holds throughout: a JSON list of kind, bytes and, where a group shards it, "
        "role, elements, width",
        "chakrakit",
    ),
    ("held_kind", "string_val", "what `mem_alloc` is for, where not activations", "chakrakit"),
)
"""Attributes of GlobalMetadata: name, member, meaning, writers. Nobody relies on them."""


def page() -> str:
    """`docs/vocabulary.md`."""
    parts = [*_attribute_table(), _NESTING.rstrip(), *_header_table(), *_edge_tables()]
    return "\n".join([_INTRODUCTION, *parts, ""])


_INTRODUCTION = """\
# Vocabulary

<!-- Made by `python -m chakrakit.trace.model.vocabulary`; change the table in vocabulary.py. -->

A Chakra node has few fields; what it is about is in its attributes. This page says what each one means.

## Attributes of nodes

Bytes are bytes and FLOPs are FLOPs (a multiply-add is two). Other tools read exact oneof members, so
*member* is what chakrakit writes; it reads any integer or boolean member for a number. Attributes that are
not listed are kept as they are.
"""


def _attribute_table() -> list[str]:
    rows = [
        (f"`{a.name}`", f"`{a.member.name}`", a.unit or "–", a.meaning, a.writers, a.readers)
        for a in NODE_ATTRIBUTES
    ]
    return _table(("attribute", "member", "unit", "meaning", "written by", "read by"), rows)


def _header_table() -> list[str]:
    rows = [(f"`{n}`", f"`{m}`", meaning, by) for n, m, meaning, by in HEADER_ATTRIBUTES]
    head = ("attribute", "member", "meaning", "written by")
    return ["", "## Attributes of the header", "", *_table(head, rows)]


_NESTING = f"""
## Nesting and steps

Which node runs inside which is a fact of the program and not of the times it has been given since, so
whoever makes a trace writes it: `parent` is the id of the host node around a host node, as `parent_id` is
in Perfetto. A kernel has no parent; a `launch` edge leads to it from the host node that started it.
`trace.parent` gives rows instead of ids. A pass that leaves a node out gives what ran inside of it to the
next node around.

`parent` is what counts. A `call` edge is only a constraint on starts. On one host thread it leads from a
node to the first one inside of it, so it agrees with `parent`; between threads it says that one handed
work to the other, which is then inside of nothing there.

Where no node has a `parent`, times tell: a host node is inside the innermost one on its thread (`tid`)
that began before and has not ended. If it outlives that one by more than {SLACK_NS // 1000} µs, it is
asynchronous: it was begun there, but nothing that runs meanwhile is inside of it. Without times, `call`
edges tell.

`step` is the number of the step a node belongs to, `trace.step` by row. Where no node has it, the
device's work (without a device, that of the innermost host nodes) is searched for a sequence of names
that repeats.
"""


def _edge_tables() -> list[str]:
    kinds = [
        (
            f"`{k.name.lower()}`",
            str(int(k)),
            _KIND_MEANINGS[k.name],
            _arrow(k.usual_form.name),
            "`ctrl_deps`" if k.usual_ctrl else "`data_deps`",
        )
        for k in EdgeKind
    ]
    forms = [(_arrow(f.name), str(int(f)), _FORM_MEANINGS[f.name]) for f in EdgeForm]
    return [
        "",
        "## Kinds of edges",
        "",
        "An edge of any kind is an entry of the node's `data_deps` or `ctrl_deps`, so that tools which "
        "know only these get a sound graph. What it is more exactly is in two attributes of the same node: "
        "`edge_kinds` has a byte per entry of `data_deps` followed by `ctrl_deps`, the kind in the low five "
        "bits and the form in the high three; `edge_lags_ns` has a number per entry and is left out where "
        "all are zero. A node without `edge_kinds` has edges of the kinds `data` and `ctrl`, finish→start.",
        "",
        *_table(("kind", "code", "meaning", "usual form", "written to"), kinds),
        "",
        "## Forms of edges",
        "",
        *_table(("form", "code", "meaning"), forms),
    ]


_KIND_MEANINGS = {
    "DATA": "an entry of `data_deps` in a file that says no more",
    "CTRL": "an entry of `ctrl_deps` in a file that says no more",
    "TENSOR": "the target reads what the source wrote",
    "LAUNCH": "a host operation starts a device operation",
    "STREAM": "order on one device stream",
    "THREAD": "order on one host thread; the lag is the host's own gap",
    "EVENT": "a stream waits for an event of another",
    "SYNC": "a host operation waits for device work to end",
    "CALL": "a caller and what it calls first; see `parent`",
    "AUTOGRAD": "a forward operation and its backward",
    "INFERRED": "found by a tool, not recorded",
}
_FORM_MEANINGS = {
    "FINISH_START": "the target starts after the source ends, and `lag` later",
    "START_START": "the target starts after the source starts, and `lag` later",
    "FINISH_FINISH": "the target ends after the source ends, and `lag` later",
}


def _arrow(form: str) -> str:
    return form.lower().replace("_", "→")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    sys.stdout.write(page())
