"""Protobuf's wire form, read field by field: enough for messages whose numbers are known."""

from __future__ import annotations

from chakrakit.errors import FormatError
from chakrakit.operators import TYPES
from chakrakit.sources.xla.hlo import Computation, Instruction, Module, Shape
from chakrakit.sources.xla.hlo_replicas import Groups, iota_groups, mesh_groups
from chakrakit.trace.model import wire

Value = int | bytes


class Message:
    """The fields of a message by number, in their order; numbers are ints, all else bytes."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in wire.fields(data):
            self._fields.setdefault(number, []).append(value)

    def integer(self, number: int, default: int = 0) -> int:
        """The last value of a varint field."""
        found = self._fields.get(number)
        return found[-1] if found and isinstance(found[-1], int) else default

    def text(self, number: int) -> str:
        """The last value of a string field."""
        found = self._fields.get(number)
        last = found[-1] if found else b""
        return last.decode("utf-8", "replace") if isinstance(last, bytes) else ""

    def messages(self, number: int) -> list[Message]:
        """All values of a message field."""
        return [Message(v) for v in self._fields.get(number, ()) if isinstance(v, bytes)]

    def message(self, number: int) -> Message | None:
        """The last value of a message field."""
        found = [v for v in self._fields.get(number, ()) if isinstance(v, bytes)]
        return Message(found[-1]) if found else None

    def raw(self, number: int) -> list[bytes]:
        """All values of a length-delimited field, as they are."""
        return [v for v in self._fields.get(number, ()) if isinstance(v, bytes)]

    def integers(self, number: int) -> list[int]:
        """All values of a repeated integer field, packed or not, as signed numbers."""
        out: list[int] = []
        for value in self._fields.get(number, ()):
            out += [value] if isinstance(value, int) else _packed(value)
        return [v - (1 << 64) if v >= 1 << 63 else v for v in out]

    def __contains__(self, number: int) -> bool:
        return number in self._fields


def _packed(data: bytes) -> list[int]:
    out, at = [], 0
    while at < len(data):
        value, at = wire.read_varint(data, at)
        out.append(value)
    return out


# HLO modules in protobuf's form: an HloProto (`.hlo.pb`) or an HloModuleProto.


_TYPES = {t.hlo_code: t.hlo for t in TYPES if t.hlo} | {13: "tuple", 14: "opaque", 17: "token"}
"""PrimitiveType of xla_data.proto."""


def read_proto(data: bytes) -> Module:
    """A module; a FormatError says what is missing."""
    whole = Message(data)
    if _is_module(whole):
        return _module(whole, 0)
    inner = whole.message(1)
    if inner is None or not _is_module(inner):
        raise FormatError("no HLO module inside: neither an HloProto nor an HloModuleProto")
    return _module(inner, _allocated(whole.message(3)))


def _is_module(message: Message) -> bool:
    """Whether computations with instructions are inside, and the one the module begins with."""
    try:
        listed = message.messages(3)
        names = {c.text(1) for c in listed if c.messages(2)}
        return bool(names) and (message.text(2) in names or 6 in message)
    except FormatError:
        return False


def _module(message: Message, allocated: int) -> Module:
    listed = message.messages(3)
    names = {c.integer(5): c.text(1) for c in listed}
    order = {
        e.integer(1): s.integers(1)
        for e in (message.message(7) or Message(b"")).messages(1)
        if (s := e.message(2)) is not None
    }
    computations = {c.text(1): _computation(c, names, order.get(c.integer(5), [])) for c in listed}
    entry = message.text(2) or names.get(message.integer(6), "")
    if entry not in computations:
        raise FormatError(f"the entry computation {entry!r} is not in the module")
    found = Module(message.text(1), computations, entry, 1, bool(order), allocated)
    found.devices = _devices(message, found)
    return found


def _devices(message: Message, module: Module) -> int:
    """From the device assignment, or the largest number that any group names."""
    assigned = message.message(15)
    told = assigned.integer(1, 1) * assigned.integer(2, 1) if assigned is not None else 1
    return max(told, devices_named(module))


def devices_named(module: Module) -> int:
    """One more than the largest device that groups and permutations name."""
    named = [
        d
        for c in module.computations.values()
        for i in c.instructions
        for group in (*i.groups, *i.pairs)
        for d in group
    ]
    return max(named, default=0) + 1


def _computation(message: Message, names: dict[int, str], order: list[int]) -> Computation:
    listed = {i.integer(35): i for i in message.messages(2)}
    inside = {number: i.text(1) for number, i in listed.items()}
    if set(order) != set(listed):
        order = list(listed)  # fused computations are not scheduled
    instructions = [_instruction(listed[n], inside, names) for n in order]
    return Computation(message.text(1), instructions, inside.get(message.integer(6), ""))


def _instruction(m: Message, inside: dict[int, str], names: dict[int, str]) -> Instruction:
    metadata, dot = m.message(7), m.message(30)
    convolution = m.message(16)
    return Instruction(
        m.text(1),
        m.text(2),
        _shape(m.message(3)),
        tuple(_known(inside, n, "operand") for n in m.integers(36)),
        tuple(_known(names, n, "computation") for n in m.integers(38)),
        metadata.text(2) if metadata else "",
        m.integer(26, -1),
        _groups(m),
        tuple((p.integer(1), p.integer(2)) for p in m.messages(52)),
        tuple(dot.integers(1)) if dot else (),
        convolution.integer(4) if convolution else -1,
        m.integer(9) if m.text(2) == "parameter" else -1,
        m.integer(13) if m.text(2) == "get-tuple-element" else -1,
        m.text(28),
        tuple(_known(inside, n, "predecessor") for n in m.integers(37)),
        m.text(43),
    )


def _known(names: dict[int, str], number: int, what: str) -> str:
    if number not in names:
        raise FormatError(f"{what} {number} is not in the module")
    return names[number]


def _shape(m: Message | None) -> Shape:
    if m is None:
        return Shape()
    kind = _TYPES.get(m.integer(2), "opaque")
    if kind == "tuple":
        return Shape(parts=tuple(_shape(p) for p in m.messages(4)), is_tuple=True)
    return Shape(kind, tuple(m.integers(3)))


def _groups(m: Message) -> Groups:
    """Lists (49), a list of devices (87), the iota form (92), or axes of a mesh (93)."""
    listed, iota, mesh = m.message(87), m.message(92), m.message(93)
    found = m.messages(49) or (listed.messages(1) if listed else [])
    if found:
        return tuple(tuple(g.integers(1)) for g in found)
    if mesh is not None:
        return _mesh(mesh)
    iota = iota or (listed.message(2) if listed else None)
    if iota is None:
        return ()
    return iota_groups((iota.integer(1), iota.integer(2)), iota.integers(3), iota.integers(4))


def _mesh(m: Message) -> Groups:
    """A mesh's axes with their sizes, and which of them, or which parts of them, a group spans."""
    whole = m.message(1)
    sizes = [axis.integer(2, 1) for axis in whole.messages(1)] if whole else []
    order = tuple(whole.integers(2)) if whole else ()
    axes = []
    for axis in m.messages(2):
        part = axis.message(2)
        axes.append((axis.integer(1), (part.integer(1, 1), part.integer(2, 1)) if part else None))
    return mesh_groups(sizes, axes, order)


def _allocated(assignment: Message | None) -> int:
    """Bytes of all buffers but those of threads and constants."""
    if assignment is None:
        return 0
    return sum(
        a.integer(2) for a in assignment.messages(3) if not a.integer(3) and not a.integer(12)
    )
