"""Every code a finding can have: how bad it is, what is wrong, why it matters and what to do.

`docs/validation.md` is made from this table (`python -m chakrakit.trace.validation.codes`).
Codes and their severities are part of the interface: they are added to, never renamed.
"""

from __future__ import annotations

import sys
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
    problem: str
    why: str
    cure: str
    repaired: bool = False
    """Whether `--fix` repairs it, where that cannot change what the trace means."""


def _area(area: str, *rows: tuple[str, Severity, str, str, str]) -> tuple[Code, ...]:
    """Codes of one area; a name that ends in `!` is repaired by `--fix`."""
    return tuple(
        Code(name.removesuffix("!"), severity, area, problem, why, cure, name.endswith("!"))
        for name, severity, problem, why, cure in rows
    )


CODES: tuple[Code, ...] = (
    *_area(
        "file",
        (
            "framing",
            "error",
            "The bytes are not what the format says: cut off, damaged, empty or not a trace",
            "Nothing after this place can be read",
            "Copy or record the file again; the message has the byte offset",
        ),
        (
            "run-times",
            "error",
            "The times of a run are not one for each node, or last longer than any run",
            "Every command that looks at times refuses the run",
            "Make the run again; the message says how many there are, or how long they last",
        ),
        (
            "workload-card",
            "error",
            "The workload's card that the set carries (extra.workload in card.json) is none",
            "No bundle can be made of it",
            "Correct the field that the message names, or remove it",
        ),
        (
            "no-metadata",
            "warning",
            "The file has no GlobalMetadata before its nodes",
            "The reference tools take the first message for it and lose a node",
            "Convert the file with `chakra convert`, after giving it a header",
        ),
        (
            "model-state",
            "error",
            "The header's `model_state`, which says what a rank holds throughout, cannot be read",
            "Every command that accounts for memory refuses the trace",
            "Make the trace again, or remove the attribute",
        ),
        (
            "no-nodes",
            "warning",
            "The trace has no nodes",
            "There is nothing to run",
            "Check how it was recorded",
        ),
        (
            "unknown-fields",
            "info",
            "Nodes have fields that the schema does not have",
            "They are kept and written back, and no rule looks at them",
            "Nothing",
        ),
    ),
    *_area(
        "nodes",
        (
            "invalid-type",
            "warning",
            "A node's type is INVALID_NODE or was never set",
            "Simulators refuse or skip it",
            "Give the node its type",
        ),
        (
            "unknown-type",
            "warning",
            "A node's type is a number that the schema does not have",
            "It is kept, but other tools may refuse it",
            "Use a type of the schema where one fits",
        ),
        (
            "empty-name",
            "info",
            "A node has no name",
            "Reports can only call it by its id",
            "Name it where the trace is made",
        ),
        (
            "negative-duration",
            "error",
            "duration_ns or own_ns is negative",
            "No schedule can place it",
            "Correct the duration",
        ),
        (
            "time-range",
            "error",
            "A node begins or ends beyond 73 years: no clock shows that, and no reader takes it",
            "It is most likely a negative number written as an unsigned one",
            "Correct the time",
        ),
    ),
    *_area(
        "graph",
        (
            "duplicate-id",
            "error",
            "A node has the id of an earlier one",
            "Dependencies on that id are ambiguous, and feeders lose one of the nodes",
            "Renumber the nodes; ids are unique within a rank's trace",
        ),
        (
            "dangling-data",
            "error",
            "A data dependency names an id that no node has",
            "Feeders refuse the trace or wait for ever",
            "Find the node that was lost; if what it made is not needed, remove the "
            "dependency. This is not repaired, since the order of the work may depend on it",
        ),
        (
            "dangling-control!",
            "error",
            "A control dependency names an id that no node has",
            "Feeders that follow control dependencies refuse the trace",
            "`--fix` drops the reference: a node that is not there holds nothing back",
        ),
        (
            "self-data",
            "error",
            "A node has a data dependency on itself",
            "It can never run",
            "Remove the dependency where the trace is made",
        ),
        (
            "dangling-parent",
            "warning",
            "`parent` names an id that no node has",
            "The node counts as running inside nothing, so that time is not told apart as it was",
            "Make the trace again, or remove the attribute from every node: then times tell",
        ),
        (
            "parent-cycle",
            "error",
            "Nodes run inside each other in a circle, as `parent` says",
            "Every command that tells time apart refuses the trace",
            "Make the trace again, or remove the attribute from every node: then times tell",
        ),
        (
            "self-control!",
            "error",
            "A node has a control dependency on itself",
            "It can never run",
            "`--fix` drops the reference: nothing else the trace says can be meant by it",
        ),
        (
            "duplicate-dependency!",
            "info",
            "A node lists the same dependency twice",
            "Some feeders count it twice and then wait for ever",
            "`--fix` keeps the first",
        ),
        (
            "cycle",
            "error",
            "Nodes depend on each other in a circle",
            "None of them, nor what follows them, can ever run",
            "Remove one of the dependencies shown",
        ),
        (
            "control-cycle!",
            "error",
            "Control dependencies contradict the data dependencies: together they make a circle",
            "Feeders that follow both wait for ever; those that follow data alone do not see it",
            "`--fix` drops the control dependencies that go against the data: they cannot be kept",
        ),
        (
            "edge-kinds-length",
            "error",
            "edge_kinds does not have one byte for each dependency of its node",
            "The kinds are not used: all dependencies of the node count as finish→start",
            "Write edge_kinds again whenever dependencies change",
        ),
        (
            "edge-kinds-code",
            "error",
            "edge_kinds holds a kind or form that is not known",
            "The edges cannot be used",
            "Upgrade chakrakit, or remove the attribute",
        ),
        (
            "edge-lags-length",
            "error",
            "edge_lags_ns does not have one number for each dependency of its node",
            "The lags are not used",
            "Write edge_lags_ns again whenever dependencies change",
        ),
    ),
    *_area(
        "attributes",
        (
            "attribute-member!",
            "warning",
            "A known attribute sits in another oneof member than the vocabulary's, with a "
            "value that fits",
            "Tools that read the exact member see the attribute as absent",
            "`--fix` moves it to the right member",
        ),
        (
            "attribute-type",
            "error",
            "A known attribute has a value of a kind that cannot be used, such as text for "
            "comm_size",
            "The attribute is kept but counts as absent",
            "Write it in the vocabulary's member",
        ),
        (
            "attribute-range",
            "error",
            "A known attribute's value is out of range",
            "It is most likely a negative number written as an unsigned one",
            "Correct the value",
        ),
        (
            "attribute-empty",
            "warning",
            "A known attribute has a name and no value",
            "It counts as absent",
            "Write its value, or leave it out",
        ),
        (
            "attribute-twice",
            "warning",
            "A node has the same attribute twice",
            "Tools differ in which of the two they read; chakrakit reads the first",
            "Remove one",
        ),
        (
            "attribute-raw",
            "warning",
            "A known attribute carries a doc string or unknown fields",
            "It is kept as bytes and counts as absent",
            "Write it with name and value only",
        ),
        (
            "negative-value",
            "error",
            "A size or a number of operations is negative",
            "No model of time can use it",
            "Correct the value",
        ),
    ),
    *_area(
        "communication",
        (
            "missing-comm-type",
            "warning",
            "A collective does not say which one it is",
            "Simulators cannot run it",
            "Add comm_type (int64_val)",
        ),
        (
            "unknown-comm-type",
            "warning",
            "comm_type is a number that the schema does not have",
            "It is kept, but simulators cannot run it",
            "Use a CollectiveCommType",
        ),
        (
            "missing-comm-size",
            "warning",
            "A collective, send or receive does not say how many bytes it moves",
            "Simulators take it for empty, or for garbage",
            "Add comm_size (int64_val, bytes)",
        ),
        (
            "missing-group",
            "warning",
            "A collective does not say its process group",
            "It is taken for one of all ranks",
            'Add pg_name (string_val); "" says all ranks',
        ),
        (
            "missing-peer",
            "warning",
            "A send without comm_dst, or a receive without comm_src",
            "It cannot be matched with the other end",
            "Add comm_src and comm_dst (int32_val)",
        ),
        (
            "negative-peer",
            "error",
            "comm_src or comm_dst is negative",
            "There is no such rank",
            "Correct the rank",
        ),
    ),
    *_area(
        "attributes",
        (
            "missing-tensor-size",
            "warning",
            "A memory node does not say how many bytes it moves",
            "Simulators take it for empty",
            "Add tensor_size (uint64_val, bytes)",
        ),
    ),
    *_area(
        "ranks",
        (
            "ranks-not-recorded",
            "warning",
            "Ranks that groups or messages name are not here",
            "What they do with the others cannot be checked; a part of a job is ordinary",
            "Nothing, or record them too",
        ),
        (
            "groups-file",
            "error",
            "The file of process groups cannot be read",
            "No group can be checked",
            'Write it as {"1": [0, 1], …}',
        ),
        (
            "no-groups",
            "warning",
            "Collectives name process groups and there is no file that defines any",
            "Who takes part is not known, so it cannot be checked",
            "Put groups.json or prefix.json beside the traces",
        ),
        (
            "unknown-group",
            "error",
            "A collective names a process group that is not defined",
            "Simulators refuse it",
            "Define the group, or correct pg_name",
        ),
        (
            "not-a-member",
            "error",
            "A rank issues a collective in a group it is not in",
            "The collective never completes",
            "Correct pg_name or the group's list of ranks",
        ),
        (
            "collective-missing",
            "error",
            "Members of a group issue different numbers of its collectives",
            "The last ones wait for ever",
            "Look at the first place where they differ",
        ),
        (
            "collective-order",
            "error",
            "Members of a group issue the same collectives in another order",
            "The job deadlocks or mixes up data",
            "Correct the order: by comm_seq, by start, else by id",
        ),
        (
            "collective-type",
            "error",
            "Members of a group issue different collectives as one",
            "The job deadlocks",
            "Correct comm_type",
        ),
        (
            "collective-size",
            "error",
            "Members of an all-reduce, all-gather or reduce-scatter give different sizes",
            "These need equal sizes",
            "Correct comm_size",
        ),
        (
            "alltoall-size",
            "warning",
            "Members of an all-to-all give different sizes and no splits",
            "Who sends how much to whom is not known",
            "Record in_splits and out_splits",
        ),
        (
            "collective-seq",
            "error",
            "A rank uses a number (comm_seq) of a group twice",
            "It is not known which collective of the other ranks each belongs to",
            "Correct comm_seq",
        ),
        (
            "self-send",
            "warning",
            "A rank sends to itself or receives from itself",
            "Many simulators wait for ever",
            "Replace it by a copy",
        ),
        (
            "wrong-end",
            "warning",
            "A send whose comm_src, or a receive whose comm_dst, is another rank than its own",
            "Tools differ in which they believe; chakrakit takes the rank's own",
            "Correct it, or the file's rank",
        ),
        (
            "peer-out-of-range",
            "error",
            "comm_src or comm_dst is beyond the last rank",
            "There is no such rank",
            "Correct it, or add the rank to the groups",
        ),
        (
            "unmatched-send",
            "error",
            "A send that the other rank does not receive",
            "It waits for ever",
            "Compare tags and order with the receives of the other rank",
        ),
        (
            "unmatched-recv",
            "error",
            "A receive that the other rank does not send",
            "It waits for ever",
            "Compare tags and order with the sends of the other rank",
        ),
        (
            "message-size",
            "error",
            "A send and its receive differ in size",
            "One end gets less than it waits for",
            "Correct comm_size",
        ),
        (
            "ranks-disagree",
            "warning",
            "One of the above, in a recording of which `link` has said that it contradicts itself",
            "It can be looked at like any run; it cannot be simulated, since some calls would wait for ever",
            "Record all ranks over the same steps; a job that hangs is analyzed as it is",
        ),
    ),
)


@cache
def by_name() -> dict[str, Code]:
    """The codes as a dictionary, in the table's order."""
    return {c.name: c for c in CODES}


# The page of the documentation about findings, made from the table of codes.


def document() -> str:
    """The page of the documentation."""
    out = [_HEAD]
    for area in dict.fromkeys(c.area for c in CODES):
        out.append(f"\n## {area.capitalize()}\n")
        out.append("| code | severity | what | why it matters | what to do |")
        out.append("|---|---|---|---|---|")
        for c in (c for c in CODES if c.area == area):
            mark = " (repaired)" if c.repaired else ""
            out.append(f"| `{c.name}`{mark} | {c.severity} | {c.problem} | {c.why} | {c.cure} |")
    return "\n".join(out) + "\n"


_HEAD = """# Validation

```sh
chakra validate PATH                  # what is wrong; exit 0 if there are no errors, else 1
chakra validate PATH --json           # the same for machines
chakra validate PATH --fix -o OUT     # repairs what can be repaired, and checks the result
```

A trace is *ok* if there are no errors. Each finding has a code, a severity, the rank, the node's id and
name, and what to do. Of many alike the first 20 of a rank are listed (`--all`: all of them); `counts` is
always exact. Warnings are what makes a trace less useful: missing attributes, ranks nobody recorded.

A file is read once, in pieces. What stays in memory is a compact set of the ids, the references that
could not be resolved yet, and the communication; the rest waits in a temporary file, in case there
are dependencies on later nodes and so perhaps a cycle. A file without such dependencies cannot have one.
Dependencies whose form is start→start or finish→finish (`edge_kinds`) are checked as the schedule
follows them: a caller may hold its callee back and be held by it without that being a cycle.

Rules across ranks look at the ranks that are here. Sets in which ranks share a body are checked by body;
a finding inside a body is counted once, at the lowest rank that runs it; one across ranks says how many
more are alike.

`--fix` makes the repairs that cannot change what a trace means, and lists them. It never touches data
dependencies, since the order of the work may depend on them.

This page is made from the table of codes: `python -m chakrakit.trace.validation.codes`."""


if __name__ == "__main__":
    import sys

    sys.stdout.write(document())
