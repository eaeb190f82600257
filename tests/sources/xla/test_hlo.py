"""HLO modules in text and protobuf: read without JAX, unrolled, and bound to devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrakit import read, validate, write
from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo import Module, parse_hlo
from chakrakit.sources.xla.program import program_of, traces_of
from support.foreign_files import HLO

SIZE = 16 * 64 * 4


@pytest.fixture
def module() -> Module:
    return parse_hlo(HLO.encode())


def test_a_loop_of_three_rounds_is_unrolled_and_its_rounds_wait_for_each_other(
    module: Module,
) -> None:
    rows = program_of(module).rows
    assert [(r.name, r.after) for r in rows] == [
        ("made", []),
        ("start", [0]),
        ("done", [1]),
        ("moved.send", [2]),
        ("moved", [2]),
        ("start", [4]),
        ("done", [5]),
        ("moved.send", [6]),
        ("moved", [6]),
        ("start", [8]),
        ("done", [9]),
        ("moved.send", [10]),
        ("moved", [10]),
    ]


def test_groups_in_iota_form_and_a_permutation_that_leaves_the_ends_out(module: Module) -> None:
    traces = traces_of(module)
    assert sorted(traces.groups.values()) == [(0, 1), (2, 3)]
    messages = traces.collectives.messages.to_pylist()
    assert {(m["src"], m["dst"], m["comm_size"]) for m in messages} == {
        (0, 1, SIZE),
        (1, 2, SIZE),
        (2, 3, SIZE),
    }
    assert traces.body_count == 3  # the first only sends, the last only receives
    assert validate(traces).ok


def test_a_fusions_work_is_that_of_what_it_holds(module: Module) -> None:
    node = traces_of(module).trace(1)[0]
    assert node.name == "made"
    assert node.get("num_ops") == 2 * 16 * 64 * 256
    assert node.get("tensor_size") == 4 * (16 * 256 + 256 * 64 + 16 * 64)
    assert node.get("estimated_cycles") == 1234


def test_the_traces_are_written_and_read(module: Module, tmp_path: Path) -> None:
    write(traces_of(module), tmp_path / "out")
    assert len(read(tmp_path / "out")) == 4


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda t: t.replace("HloModule", "Module"), "neither as text nor as protobuf"),
        (lambda t: t.replace("ENTRY ", ""), "no ENTRY computation"),
        (lambda t: t.replace("[2,2]<=[4]", "[2,2]<=[6]"), "do not fit each other"),
        (lambda t: t.replace("body=%body", "body=%gone"), "'gone' is called and not in the module"),
        (lambda t: t.replace("body=%body", "body=%main"), "nested too deep"),
        (lambda t: t.replace('"n":"3"', '"n":"9999999"'), "once loops are unrolled"),
    ],
)
def test_a_damaged_module_is_refused_in_words(damage: object, said: str) -> None:
    text = damage(HLO)  # type: ignore[operator]
    with pytest.raises(FormatError, match=said):
        traces_of(parse_hlo(text.encode()))


@pytest.mark.parametrize("data", [b"", b"\x0a\xff\xff\xff\xff\x0f", b"\x00\x01", b"\x0a\x02hi\x12"])
def test_bytes_that_are_no_module_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_hlo(data)


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
