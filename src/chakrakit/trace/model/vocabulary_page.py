"""The page of the documentation about attributes and edges, made from the vocabulary's tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from chakrakit.trace.model.edges import EdgeForm, EdgeKind
from chakrakit.trace.model.nesting import SLACK_NS
from chakrakit.trace.model.vocabulary import NODE_ATTRIBUTES

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

<!-- Made by `python -m chakrakit.trace.model.vocabulary_page`; change the table in vocabulary.py. -->

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
