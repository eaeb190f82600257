"""HLO modules as text: what `compiled.as_text()` and XLA's dumps write."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo import BITS, Computation, Instruction, Module, Shape
from chakrakit.sources.xla.hlo_proto import devices_named
from chakrakit.sources.xla.hlo_replicas import parse_groups, parse_pairs

_MODULE = re.compile(r"^HloModule\s+([^\s,]+)(.*)$", re.M)
_COMPUTATION = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*\)\s*->\s*.*)?\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT\s+)?%?([\w.\-]+)\s*=\s*(.*)$")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{[^}]*\})?")
_OPCODE = re.compile(r"\s*([\w\-]+)\(")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLS = (
    "calls",
    "to_apply",
    "condition",
    "body",
    "branch_computations",
    "true_computation",
    "false_computation",
    "called_computations",
    "async_wrapped",
)


def read_text(text: str) -> Module:
    """A module; a FormatError names the line that cannot be read."""
    head = _MODULE.search(text)
    if head is None:
        raise FormatError("no line starts with HloModule; this is not HLO text")
    computations: dict[str, Computation] = {}
    entry, current = "", None
    for number, line in _lines(text):
        opened = _COMPUTATION.match(line) if not line.startswith(" ") else None
        if opened:
            current = computations[opened[2]] = Computation(opened[2])
            entry = opened[2] if opened[1] else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and (found := _INSTRUCTION.match(line)):
            try:
                current.instructions.append(_instruction(found[2], found[3]))
            except (ValueError, IndexError) as error:
                raise FormatError(f"line {number}: {str(error) or 'cannot be read'}") from None
            if found[1]:
                current.root = found[2]
    if entry not in computations:
        raise FormatError("no ENTRY computation; the text is not a whole HLO module")
    return _finished(head, computations, entry)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((n, re.sub(r"/\*.*?\*/", "", line)) for n, line in enumerate(text.splitlines(), 1))


def _finished(head: re.Match[str], computations: dict[str, Computation], entry: str) -> Module:
    module = Module(head[1], computations, entry, 1, "is_scheduled=true" in head[2])
    told = 1
    for what in ("replica_count", "num_partitions"):
        found = re.search(rf"\b{what}=(\d+)", head[2])
        told *= int(found[1]) if found else 1
    module.devices = max(told, devices_named(module))
    for computation in computations.values():
        if not computation.root and computation.instructions:
            computation.root = computation.instructions[-1].name
    return module


def _instruction(name: str, rest: str) -> Instruction:
    shape, at = _shape(rest, 0)
    opened = _OPCODE.match(rest, at)
    if opened is None:
        raise ValueError(f"{name} has no opcode")
    end = _closing(rest, opened.end() - 1)
    attributes = dict(_attributes(rest[end + 1 :]))
    opcode, inner = opened[1], rest[opened.end() : end]
    return Instruction(
        name,
        opcode,
        shape,
        () if opcode in ("parameter", "constant") else _operands(inner),
        tuple(n for key in _CALLS if key in attributes for n in _names(attributes[key])),
        _metadata(attributes.get("metadata", "")),
        int(attributes.get("channel_id", -1)),
        parse_groups(attributes.get("replica_groups", "{}")),
        parse_pairs(attributes.get("source_target_pairs", "{}")),
        _braced(attributes.get("lhs_contracting_dims", "")),
        _features(attributes.get("dim_labels", "")),
        int(inner) if opcode == "parameter" else -1,
        int(attributes.get("index", -1)),
        attributes.get("custom_call_target", "").strip('"'),
        tuple(_names(attributes.get("control-predecessors", ""))),
        attributes.get("backend_config", ""),
    )


def _shape(text: str, at: int) -> tuple[Shape, int]:
    """The shape that starts here, and where it ends."""
    while text[at] == " ":
        at += 1
    if text[at] != "(":
        found = _ARRAY.match(text, at)
        if found is None:
            word = re.match(r"(token|opaque)\[\]", text[at:])
            if word is None:
                raise ValueError(f"no shape in {text[at : at + 40]!r}")
            return Shape(word[1]), at + word.end()
        dims = tuple(int(d.strip().lstrip("<=")) for d in found[2].split(",") if d.strip())
        kind = found[1] if found[1] in BITS else "opaque"
        return Shape(kind, dims), _after_layout(text, found.end())
    parts, at = [], at + 1
    while text[at] != ")":
        if text[at] in ", ":
            at += 1
            continue
        part, at = _shape(text, at)
        parts.append(part)
    return Shape(parts=tuple(parts), is_tuple=True), at + 1


def _after_layout(text: str, at: int) -> int:
    """Layouts with tiles hold parentheses and may nest; braces are what ends them."""
    return _closing(text, at) + 1 if at < len(text) and text[at] == "{" else at


def _closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one here; strings are passed over."""
    depth, i = 0, at
    while i < len(text):
        character = text[i]
        if character == '"':
            i = _string_end(text, i)
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise ValueError("a bracket is not closed")


def _string_end(text: str, at: int) -> int:
    i = at + 1
    while i < len(text) and text[i] != '"':
        i += 2 if text[i] == "\\" else 1
    return i


def _split(text: str) -> Iterator[str]:
    """Parts between commas that are in no bracket and no string."""
    start = i = 0
    while i < len(text):
        if text[i] == '"':
            i = _string_end(text, i)
        elif text[i] in "([{":
            i = _closing(text, i)
        elif text[i] == ",":
            yield text[start:i].strip()
            start = i + 1
        i += 1
    yield text[start:].strip()


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        key, sign, value = part.partition("=")
        if sign:
            yield key.strip(), value.strip()


def _operands(text: str) -> tuple[str, ...]:
    return tuple(p.split()[-1].lstrip("%") for p in _split(text) if p)


def _names(text: str) -> list[str]:
    found = _NAME.findall(text)
    return found or [n.strip() for n in text.strip("{}").split(",") if n.strip()]


def _metadata(text: str) -> str:
    found = re.search(r'op_name="((?:[^"\\]|\\.)*)"', text)
    return found[1] if found else ""


def _braced(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.strip("{}").split(",") if n.strip())


def _features(labels: str) -> int:
    """Of `b01f_01io->b01f`: where in the kernel the output features are."""
    kernel = labels.partition("->")[0].partition("_")[2]
    return kernel.find("o")
