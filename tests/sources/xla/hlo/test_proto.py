"""HLO modules in protobuf's form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import Module, parse_hlo
from chakrakit.sources.xla.hlo import Computation, Instruction, Shape
from chakrakit.sources.xla.hlo_proto import devices_named, read_proto
from chakrakit.sources.xla.rows import program_of

BOTH = """
import jax, jax.numpy as jnp, sys
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 4), ("x", "y"))
def f(ws, x):
    y, _ = jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, ws)
    return (y ** 2).sum()
s = lambda *a: NamedSharding(mesh, P(*a))
g = jax.jit(jax.grad(f), in_shardings=(s(None, None, "y"), s("x", None)), out_shardings=s(None, None, "y"))
made = g.lower(jax.ShapeDtypeStruct((5, 64, 64), jnp.float32), jax.ShapeDtypeStruct((32, 64), jnp.float32))
made = made.compile()
proto = made.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
open(sys.argv[1] + "/m.pb", "wb").write(proto)
open(sys.argv[1] + "/m.txt", "w").write(made.as_text())
"""


@pytest.mark.slow
def test_text_and_protobuf_of_one_module_say_the_same(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", BOTH, str(tmp_path)], check=True, env=environment)
    proto, text = (parse_hlo((tmp_path / n).read_bytes()) for n in ("m.pb", "m.txt"))
    assert (proto.devices, proto.entry, proto.is_scheduled) == (8, text.entry, True)
    for name, computation in proto.computations.items():
        for one, other in zip(
            computation.instructions, text.computations[name].instructions, strict=True
        ):
            for what in (
                "name",
                "opcode",
                "shape",
                "operands",
                "groups",
                "pairs",
                "contracting",
                "channel",
                "op_name",
                "index",
                "parameter",
            ):
                assert getattr(one, what) == getattr(other, what), (one.name, what)
    assert [r.name for r in program_of(proto).rows] == [r.name for r in program_of(text).rows]


@pytest.fixture
def module(message):
    """`dot(a, a)` for two devices in one group; its buffers take 100 bytes."""
    shape = message((2, 11), (3, 4), (3, 4))
    dot = message((1, 1))  # contracts dimension 1
    groups = message((1, 0), (1, 1))
    a = message((1, "a"), (2, "parameter"), (3, shape), (35, 7))
    b = message(
        (1, "b"), (2, "dot"), (3, shape), (35, 8), (36, 7), (36, 7), (30, dot), (49, groups)
    )
    main = message((1, "main"), (5, 3), (6, 8), (2, a), (2, b))
    buffers = message((3, message((2, 100))), (3, message((2, 50), (12, 1))))
    inner = message((1, "m"), (2, "main"), (3, main))
    return message((1, inner), (3, buffers)), inner


def test_a_module_of_one_product(module):
    found = read_proto(module[0])
    a, b = found.main.instructions
    assert (found.name, found.entry, found.main.root, found.devices) == ("m", "main", "b", 2)
    assert (a.opcode, a.parameter, a.shape) == ("parameter", 0, Shape("f32", (4, 4)))
    assert (b.operands, b.contracting, b.groups) == (("a", "a"), (1,), ((0, 1),))


def test_buffers_of_constants_are_not_counted(module):
    assert read_proto(module[0]).allocated == 100
    assert read_proto(module[1]).allocated == 0  # a module without its buffers


def test_instructions_come_in_the_order_of_the_schedule(message, module):
    """Field 7 lists, for computation 3, its instructions 8 and 7."""
    entry = message((1, 3), (2, message((1, 8), (1, 7))))
    found = read_proto(module[1] + message((7, message((1, entry)))))
    assert [i.name for i in found.main.instructions] == ["b", "a"]
    assert found.is_scheduled


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (((36, 99),), "operand 99 is not in the module"),
        (((38, 99),), "computation 99 is not in the module"),
        (((37, 99),), "predecessor 99 is not in the module"),
    ],
)
def test_what_an_instruction_names_must_be_there(message, fields, said):
    lost = message((1, "b"), (2, "add"), (35, 8), *fields)
    data = message((1, "m"), (2, "main"), (3, message((1, "main"), (2, lost))))
    with pytest.raises(FormatError, match=said):
        read_proto(data)


def test_something_else_is_one_clear_error(message):
    with pytest.raises(FormatError, match="neither an HloProto nor an HloModuleProto"):
        read_proto(message((1, message((1, "name"), (2, "entry")))))


def test_devices_are_those_that_groups_and_permutations_name():
    shape = Shape("f32", (4,))
    both = [
        Instruction("r", "all-reduce", shape, groups=((0, 5), (1, 2))),
        Instruction("p", "collective-permute", shape, pairs=((0, 7),)),
    ]
    assert devices_named(Module("m", {"main": Computation("main", both)}, "main")) == 8
    assert devices_named(Module("m", {"main": Computation("main")}, "main")) == 1
