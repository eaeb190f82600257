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
    """The module in a text; a FormatError names the line that cannot be read."""
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
        elif current is not None and (match := _INSTRUCTION.match(line)):
            try:
                current.instructions.append(_instruction(match[2], match[3]))
            except (ValueError, IndexError) as error:
                raise FormatError(f"line {number}: {str(error) or 'cannot be read'}") from None
            if match[1]:
                current.root = match[2]
    if entry not in computations:
        raise FormatError("no ENTRY computation; the text is not a whole HLO module")
    return _finished(head, computations, entry)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return ((n, re.sub(r"/\*.*?\*/", "", line)) for n, line in enumerate(text.splitlines(), 1))


def _finished(head: re.Match[str], computations: dict[str, Computation], entry: str) -> Module:
    module = Module(head[1], computations, entry, 1, "is_scheduled=true" in head[2])
    stated_devices = 1
    for attribute in ("replica_count", "num_partitions"):
        match = re.search(rf"\b{attribute}=(\d+)", head[2])
        stated_devices *= int(match[1]) if match else 1
    module.devices = max(stated_devices, devices_named(module))
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
        name=name,
        opcode=opcode,
        shape=shape,
        operands=() if opcode in ("parameter", "constant") else _operands(inner),
        called=tuple(n for key in _CALLS if key in attributes for n in _names(attributes[key])),
        op_name=_metadata(attributes.get("metadata", "")),
        channel=int(attributes.get("channel_id", -1)),
        groups=parse_groups(attributes.get("replica_groups", "{}")),
        pairs=parse_pairs(attributes.get("source_target_pairs", "{}")),
        contracting=_braced(attributes.get("lhs_contracting_dims", "")),
        kernel_features=_features(attributes.get("dim_labels", "")),
        parameter=int(inner) if opcode == "parameter" else -1,
        index=int(attributes.get("index", -1)),
        target=attributes.get("custom_call_target", "").strip('"'),
        after=tuple(_names(attributes.get("control-predecessors", ""))),
        backend=attributes.get("backend_config", ""),
    )


def _shape(text: str, at: int) -> tuple[Shape, int]:
    """The shape that starts here, and where it ends."""
    while text[at] == " ":
        at += 1
    if text[at] != "(":
        array = _ARRAY.match(text, at)
        if array is None:
            word = re.match(r"(token|opaque)\[\]", text[at:])
            if word is None:
                raise ValueError(f"no shape in {text[at : at + 40]!r}")
            return Shape(word[1]), at + word.end()
        dims = tuple(int(d.strip().lstrip("<=")) for d in array[2].split(",") if d.strip())
        kind = array[1] if array[1] in BITS else "opaque"
        return Shape(kind, dims), _after_layout(text, array.end())
    parts, at = [], at + 1
    while text[at] != ")":
        if text[at] in ", ":
            at += 1
            continue
        part, at = _shape(text, at)
        parts.append(part)
    return Shape(parts=tuple(parts), is_tuple=True), at + 1


def _after_layout(text: str, at: int) -> int:
    """The place after a layout in braces, which may hold other brackets; `at` if there is none."""
    return _closing(text, at) + 1 if at < len(text) and text[at] == "{" else at


def _closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`; brackets in strings do not count."""
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
    names = _NAME.findall(text)
    return names or [n.strip() for n in text.strip("{}").split(",") if n.strip()]


def _metadata(text: str) -> str:
    match = re.search(r'op_name="((?:[^"\\]|\\.)*)"', text)
    return match[1] if match else ""


def _braced(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.strip("{}").split(",") if n.strip())


def _features(labels: str) -> int:
    """The kernel's dimension of output features: 3 in `b01f_01io->b01f`."""
    kernel = labels.partition("->")[0].partition("_")[2]
    return kernel.find("o")
