"""HLO modules in protobuf's form: an HloProto (`.hlo.pb`) or an HloModuleProto.

`WireMessage` reads any protobuf message by field numbers, without a schema; the numbers used here are those
of XLA's hlo.proto and xla_data.proto.
"""

from __future__ import annotations

from chakrakit.errors import FormatError
from chakrakit.operators import TYPES
from chakrakit.sources.xla.hlo import Computation, Instruction, Module, Shape
from chakrakit.sources.xla.hlo_replicas import Groups, iota_groups, mesh_groups
from chakrakit.trace.model import wire

Value = int | bytes


class WireMessage:
    """The fields of a message by number, in their order; numbers are ints, all else bytes."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in wire.fields(data):
            self._fields.setdefault(number, []).append(value)

    def integer(self, number: int, default: int = 0) -> int:
        """The last value of a varint field."""
        values = self._fields.get(number)
        return values[-1] if values and isinstance(values[-1], int) else default

    def text(self, number: int) -> str:
        """The last value of a string field."""
        values = self._fields.get(number)
        last = values[-1] if values else b""
        return last.decode("utf-8", "replace") if isinstance(last, bytes) else ""

    def messages(self, number: int) -> list[WireMessage]:
        """All values of a message field."""
        return [WireMessage(v) for v in self._fields.get(number, ()) if isinstance(v, bytes)]

    def message(self, number: int) -> WireMessage | None:
        """The last value of a message field."""
        encoded = [v for v in self._fields.get(number, ()) if isinstance(v, bytes)]
        return WireMessage(encoded[-1]) if encoded else None

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


_TYPES = {t.hlo_code: t.hlo for t in TYPES if t.hlo} | {13: "tuple", 14: "opaque", 17: "token"}
"""PrimitiveType of xla_data.proto."""


def read_proto(data: bytes) -> Module:
    """The module in some bytes; a FormatError says what is missing."""
    whole = WireMessage(data)
    if _is_module(whole):
        return _module(whole, 0)
    inner = whole.message(1)
    if inner is None or not _is_module(inner):
        raise FormatError("no HLO module inside: neither an HloProto nor an HloModuleProto")
    return _module(inner, _allocated(whole.message(3)))


def _is_module(message: WireMessage) -> bool:
    """Whether a message is a module: it has computations with instructions and names its entry."""
    try:
        listed = message.messages(3)
        names = {c.text(1) for c in listed if c.messages(2)}
        return bool(names) and (message.text(2) in names or 6 in message)
    except FormatError:
        return False


def _module(message: WireMessage, allocated: int) -> Module:
    listed = message.messages(3)
    names = {c.integer(5): c.text(1) for c in listed}
    order = {
        e.integer(1): s.integers(1)
        for e in (message.message(7) or WireMessage(b"")).messages(1)
        if (s := e.message(2)) is not None
    }
    computations = {c.text(1): _computation(c, names, order.get(c.integer(5), [])) for c in listed}
    entry = message.text(2) or names.get(message.integer(6), "")
    if entry not in computations:
        raise FormatError(f"the entry computation {entry!r} is not in the module")
    module = Module(
        message.text(1), computations, entry, is_scheduled=bool(order), allocated=allocated
    )
    module.devices = _devices(message, module)
    return module


def _devices(message: WireMessage, module: Module) -> int:
    """How many devices a module is for: as its device assignment says, or as its groups name."""
    assigned = message.message(15)
    assigned_devices = (
        assigned.integer(1, 1) * assigned.integer(2, 1) if assigned is not None else 1
    )
    return max(assigned_devices, devices_named(module))


def devices_named(module: Module) -> int:
    """One more than the largest device that groups and permutations name."""
    devices = [
        d
        for c in module.computations.values()
        for i in c.instructions
        for group in (*i.groups, *i.pairs)
        for d in group
    ]
    return max(devices, default=0) + 1


def _computation(message: WireMessage, names: dict[int, str], order: list[int]) -> Computation:
    listed = {i.integer(35): i for i in message.messages(2)}
    inside = {number: i.text(1) for number, i in listed.items()}
    if set(order) != set(listed):
        order = list(listed)  # fused computations are not scheduled
    instructions = [_instruction(listed[n], inside, names) for n in order]
    return Computation(message.text(1), instructions, inside.get(message.integer(6), ""))


def _instruction(m: WireMessage, inside: dict[int, str], names: dict[int, str]) -> Instruction:
    metadata, dot = m.message(7), m.message(30)
    convolution = m.message(16)
    return Instruction(
        name=m.text(1),
        opcode=m.text(2),
        shape=_shape(m.message(3)),
        operands=tuple(_name_of(inside, n, "operand") for n in m.integers(36)),
        called=tuple(_name_of(names, n, "computation") for n in m.integers(38)),
        op_name=metadata.text(2) if metadata else "",
        channel=m.integer(26, -1),
        groups=_groups(m),
        pairs=tuple((p.integer(1), p.integer(2)) for p in m.messages(52)),
        contracting=tuple(dot.integers(1)) if dot else (),
        kernel_features=convolution.integer(4) if convolution else -1,
        parameter=m.integer(9) if m.text(2) == "parameter" else -1,
        index=m.integer(13) if m.text(2) == "get-tuple-element" else -1,
        target=m.text(28),
        after=tuple(_name_of(inside, n, "predecessor") for n in m.integers(37)),
        backend=m.text(43),
    )


def _name_of(names: dict[int, str], number: int, role: str) -> str:
    if number not in names:
        raise FormatError(f"{role} {number} is not in the module")
    return names[number]


def _shape(m: WireMessage | None) -> Shape:
    if m is None:
        return Shape()
    kind = _TYPES.get(m.integer(2), "opaque")
    if kind == "tuple":
        return Shape(parts=tuple(_shape(p) for p in m.messages(4)), is_tuple=True)
    return Shape(kind, tuple(m.integers(3)))


def _groups(m: WireMessage) -> Groups:
    """Replica groups: lists (field 49 or 87), the iota form (92), or axes of a mesh (93)."""
    listed, iota, mesh = m.message(87), m.message(92), m.message(93)
    lists = m.messages(49) or (listed.messages(1) if listed else [])
    if lists:
        return tuple(tuple(g.integers(1)) for g in lists)
    if mesh is not None:
        return _mesh(mesh)
    iota = iota or (listed.message(2) if listed else None)
    if iota is None:
        return ()
    return iota_groups((iota.integer(1), iota.integer(2)), iota.integers(3), iota.integers(4))


def _mesh(m: WireMessage) -> Groups:
    """Groups from a mesh's axes, and the axes or parts of axes that a group spans."""
    whole = m.message(1)
    sizes = [axis.integer(2, 1) for axis in whole.messages(1)] if whole else []
    order = tuple(whole.integers(2)) if whole else ()
    axes = []
    for axis in m.messages(2):
        part = axis.message(2)
        axes.append((axis.integer(1), (part.integer(1, 1), part.integer(2, 1)) if part else None))
    return mesh_groups(sizes, axes, order)


def _allocated(assignment: WireMessage | None) -> int:
    """Bytes of all buffers except thread-local ones and constants."""
    if assignment is None:
        return 0
    return sum(
        a.integer(2) for a in assignment.messages(3) if not a.integer(3) and not a.integer(12)
    )
