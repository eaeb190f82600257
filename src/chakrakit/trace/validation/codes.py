"""Every code a finding can have: how bad it is, what is wrong, why it matters and what to do.

`docs/validation.md` is made from this table (`python -m chakrakit.trace.validation.codes_page`).
Codes and their severities are part of the interface: they are added to, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Code:
    """One kind of finding."""

    name: str
    severity: Severity
    area: str
    what: str
    why: str
    cure: str
    repaired: bool = False
    """Whether `--fix` repairs it, where that cannot change what the trace means."""


_C = Code

CODES: tuple[Code, ...] = (
    _C(
        "framing",
        "error",
        "file",
        "The bytes are not what the format says: cut off, damaged, empty or not a trace",
        "Nothing after this place can be read",
        "Copy or record the file again; the message has the byte offset",
    ),
    _C(
        "no-metadata",
        "warning",
        "file",
        "The file has no GlobalMetadata before its nodes",
        "The reference tools take the first message for it and lose a node",
        "Convert the file with `chakra convert`, after giving it a header",
    ),
    _C(
        "no-nodes",
        "warning",
        "file",
        "The trace has no nodes",
        "There is nothing to run",
        "Check how it was recorded",
    ),
    _C(
        "unknown-fields",
        "info",
        "file",
        "Nodes have fields that the schema does not have",
        "They are kept and written back, and no rule looks at them",
        "Nothing",
    ),
    _C(
        "invalid-type",
        "warning",
        "nodes",
        "A node's type is INVALID_NODE or was never set",
        "Simulators refuse or skip it",
        "Give the node its type",
    ),
    _C(
        "unknown-type",
        "warning",
        "nodes",
        "A node's type is a number that the schema does not have",
        "It is kept, but other tools may refuse it",
        "Use a type of the schema where one fits",
    ),
    _C(
        "empty-name",
        "info",
        "nodes",
        "A node has no name",
        "Reports can only call it by its id",
        "Name it where the trace is made",
    ),
    _C(
        "negative-duration",
        "error",
        "nodes",
        "duration_ns is negative",
        "No schedule can place it",
        "Correct the duration",
    ),
    _C(
        "time-range",
        "error",
        "nodes",
        "A start or duration is beyond 292 years",
        "It is most likely a negative number written as an unsigned one",
        "Correct the time",
    ),
    _C(
        "duplicate-id",
        "error",
        "graph",
        "A node has the id of an earlier one",
        "Dependencies on that id are ambiguous, and feeders lose one of the nodes",
        "Renumber the nodes; ids are unique within a rank's trace",
    ),
    _C(
        "dangling-data",
        "error",
        "graph",
        "A data dependency names an id that no node has",
        "Feeders refuse the trace or wait for ever",
        "Find the node that was lost; if what it made is not needed, remove the dependency. This is not "
        "repaired, since the order of the work may depend on it",
    ),
    _C(
        "dangling-control",
        "error",
        "graph",
        "A control dependency names an id that no node has",
        "Feeders that follow control dependencies refuse the trace",
        "`--fix` drops the reference: a node that is not there holds nothing back",
        True,
    ),
    _C(
        "self-data",
        "error",
        "graph",
        "A node has a data dependency on itself",
        "It can never run",
        "Remove the dependency where the trace is made",
    ),
    _C(
        "self-control",
        "error",
        "graph",
        "A node has a control dependency on itself",
        "It can never run",
        "`--fix` drops the reference: nothing else the trace says can be meant by it",
        True,
    ),
    _C(
        "duplicate-dependency",
        "info",
        "graph",
        "A node lists the same dependency twice",
        "Some feeders count it twice and then wait for ever",
        "`--fix` keeps the first",
        True,
    ),
    _C(
        "cycle",
        "error",
        "graph",
        "Nodes depend on each other in a circle",
        "None of them, nor what follows them, can ever run",
        "Remove one of the dependencies shown",
    ),
    _C(
        "control-cycle",
        "error",
        "graph",
        "Control dependencies contradict the data dependencies: together they make a circle",
        "Feeders that follow both wait for ever; those that follow data alone do not see it",
        "`--fix` drops the control dependencies that go against the data: they cannot be kept",
        True,
    ),
    _C(
        "edge-kinds-length",
        "error",
        "graph",
        "edge_kinds has not one byte for each dependency of its node",
        "The kinds are not used: all dependencies of the node count as finish→start",
        "Write edge_kinds again whenever dependencies change",
    ),
    _C(
        "edge-kinds-code",
        "error",
        "graph",
        "edge_kinds holds a kind or form that is not known",
        "The edges cannot be used",
        "Upgrade chakrakit, or remove the attribute",
    ),
    _C(
        "edge-lags-length",
        "error",
        "graph",
        "edge_lags_ns has not one number for each dependency of its node",
        "The lags are not used",
        "Write edge_lags_ns again whenever dependencies change",
    ),
    _C(
        "attribute-member",
        "warning",
        "attributes",
        "A known attribute sits in another oneof member than the vocabulary's, with a value that fits",
        "Tools that read the exact member see the attribute as absent",
        "`--fix` moves it to the right member",
        True,
    ),
    _C(
        "attribute-type",
        "error",
        "attributes",
        "A known attribute has a value of a kind that cannot be used, such as text for comm_size",
        "The attribute is kept but counts as absent",
        "Write it in the vocabulary's member",
    ),
    _C(
        "attribute-range",
        "error",
        "attributes",
        "A known attribute's value is out of range",
        "It is most likely a negative number written as an unsigned one",
        "Correct the value",
    ),
    _C(
        "attribute-empty",
        "warning",
        "attributes",
        "A known attribute has a name and no value",
        "It counts as absent",
        "Write its value, or leave it out",
    ),
    _C(
        "attribute-twice",
        "warning",
        "attributes",
        "A node has the same attribute twice",
        "Tools differ in which of the two they read; chakrakit reads the first",
        "Remove one",
    ),
    _C(
        "attribute-raw",
        "warning",
        "attributes",
        "A known attribute carries a doc string or unknown fields",
        "It is kept as bytes and counts as absent",
        "Write it with name and value only",
    ),
    _C(
        "negative-value",
        "error",
        "attributes",
        "A size or a number of operations is negative",
        "No model of time can use it",
        "Correct the value",
    ),
    _C(
        "missing-comm-type",
        "warning",
        "communication",
        "A collective does not say which one it is",
        "Simulators cannot run it",
        "Add comm_type (int64_val)",
    ),
    _C(
        "unknown-comm-type",
        "warning",
        "communication",
        "comm_type is a number that the schema does not have",
        "It is kept, but simulators cannot run it",
        "Use a CollectiveCommType",
    ),
    _C(
        "missing-comm-size",
        "warning",
        "communication",
        "A collective, send or receive does not say how many bytes it moves",
        "Simulators take it for empty, or for garbage",
        "Add comm_size (int64_val, bytes)",
    ),
    _C(
        "missing-group",
        "warning",
        "communication",
        "A collective does not say its process group",
        "It is taken for one of all ranks",
        'Add pg_name (string_val); "" says all ranks',
    ),
    _C(
        "missing-peer",
        "warning",
        "communication",
        "A send without comm_dst, or a receive without comm_src",
        "It cannot be matched with the other end",
        "Add comm_src and comm_dst (int32_val)",
    ),
    _C(
        "negative-peer",
        "error",
        "communication",
        "comm_src or comm_dst is negative",
        "There is no such rank",
        "Correct the rank",
    ),
    _C(
        "missing-tensor-size",
        "warning",
        "attributes",
        "A memory node does not say how many bytes it moves",
        "Simulators take it for empty",
        "Add tensor_size (uint64_val, bytes)",
    ),
    _C(
        "ranks-not-recorded",
        "warning",
        "ranks",
        "Ranks that groups or messages name are not here",
        "What they do with the others cannot be checked; a part of a job is ordinary",
        "Nothing, or record them too",
    ),
    _C(
        "groups-file",
        "error",
        "ranks",
        "The file of process groups cannot be read",
        "No group can be checked",
        'Write it as {"1": [0, 1], …}',
    ),
    _C(
        "no-groups",
        "warning",
        "ranks",
        "Collectives name process groups and there is no file that defines any",
        "Who takes part is not known, so it cannot be checked",
        "Put groups.json or prefix.json beside the traces",
    ),
    _C(
        "unknown-group",
        "error",
        "ranks",
        "A collective names a process group that is not defined",
        "Simulators refuse it",
        "Define the group, or correct pg_name",
    ),
    _C(
        "not-a-member",
        "error",
        "ranks",
        "A rank issues a collective in a group it is not in",
        "The collective never completes",
        "Correct pg_name or the group's list of ranks",
    ),
    _C(
        "collective-missing",
        "error",
        "ranks",
        "Members of a group issue different numbers of its collectives",
        "The last ones wait for ever",
        "Look at the first place where they differ",
    ),
    _C(
        "collective-order",
        "error",
        "ranks",
        "Members of a group issue the same collectives in another order",
        "The job deadlocks or mixes up data",
        "Correct the order: by comm_seq, by start, else by id",
    ),
    _C(
        "collective-type",
        "error",
        "ranks",
        "Members of a group issue different collectives as one",
        "The job deadlocks",
        "Correct comm_type",
    ),
    _C(
        "collective-size",
        "error",
        "ranks",
        "Members of an all-reduce, all-gather or reduce-scatter give different sizes",
        "These need equal sizes",
        "Correct comm_size",
    ),
    _C(
        "alltoall-size",
        "warning",
        "ranks",
        "Members of an all-to-all give different sizes and no splits",
        "Who sends how much to whom is not known",
        "Record in_splits and out_splits",
    ),
    _C(
        "collective-seq",
        "error",
        "ranks",
        "A rank uses a number (comm_seq) of a group twice",
        "It is not known which collective of the other ranks each belongs to",
        "Correct comm_seq",
    ),
    _C(
        "self-send",
        "warning",
        "ranks",
        "A rank sends to itself or receives from itself",
        "Many simulators wait for ever",
        "Replace it by a copy",
    ),
    _C(
        "wrong-end",
        "warning",
        "ranks",
        "A send whose comm_src, or a receive whose comm_dst, is another rank than its own",
        "Tools differ in which they believe; chakrakit takes the rank's own",
        "Correct it, or the file's rank",
    ),
    _C(
        "peer-out-of-range",
        "error",
        "ranks",
        "comm_src or comm_dst is beyond the last rank",
        "There is no such rank",
        "Correct it, or add the rank to the groups",
    ),
    _C(
        "unmatched-send",
        "error",
        "ranks",
        "A send that the other rank does not receive",
        "It waits for ever",
        "Compare tags and order with the receives of the other rank",
    ),
    _C(
        "unmatched-recv",
        "error",
        "ranks",
        "A receive that the other rank does not send",
        "It waits for ever",
        "Compare tags and order with the sends of the other rank",
    ),
    _C(
        "message-size",
        "error",
        "ranks",
        "A send and its receive differ in size",
        "One end gets less than it waits for",
        "Correct comm_size",
    ),
)


@cache
def by_name() -> dict[str, Code]:
    """The codes as a dictionary, in the table's order."""
    return {c.name: c for c in CODES}
