"""`capture_jax`: a JAX function compiled for a mesh of devices, and the compiled program as traces.

Arguments are given without values: `f32[16,1024]`, or sharded over a mesh as in `f32[16,1024]@x,y`.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chakrakit.errors import ChakraError, ConfigError, MissingExtra
from chakrakit.operators import find_type
from chakrakit.sources.capture.folding import CaptureReport, CollectiveFigures, KindFigures
from chakrakit.sources.xla.hlo import Module
from chakrakit.sources.xla.hlo_read import parse_hlo
from chakrakit.sources.xla.program import BoundProgram
from chakrakit.sources.xla.rows import HloProgram, flops, program_of
from chakrakit.trace.model import CollectiveType, NodeType
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.trace.storage import write

_ARGUMENT = re.compile(r"^([a-z]\w*)\[([\d,\s]*)\](?:@(.*))?$")


def parse_argument(text: str, mesh: Any) -> Any:
    """A ShapeDtypeStruct. After `@` there is an axis for each dimension, `-` for one that is not cut."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    match = _ARGUMENT.match(text.strip())
    element = find_type(match[1]) if match else None
    if match is None or element is None or not hasattr(jnp, element.numpy or "?"):
        raise ConfigError(f"argument {text!r}; give a type and a shape such as bf16[16,1024]@x,-")
    shape = tuple(int(d) for d in match[2].split(",") if d.strip())
    axes = [None if a.strip() in ("-", "") else _axes(a, mesh) for a in (match[3] or "").split(",")]
    sharding = NamedSharding(mesh, PartitionSpec(*axes)) if match[3] else None
    return jax.ShapeDtypeStruct(shape, getattr(jnp, element.numpy), sharding=sharding)


def _axes(text: str, mesh: Any) -> Any:
    names = tuple(n.strip() for n in text.split("+"))
    for name in names:
        if name not in mesh.axis_names:
            raise ConfigError(f"the mesh has no axis {name!r}; it has {', '.join(mesh.axis_names)}")
    return names if len(names) > 1 else names[0]


def abstract(value: Any, mesh: Any) -> Any:
    """An argument without values, from a text, a shape, an array or a struct, or a nest of them."""
    import jax
    import numpy as np

    def one(x: Any) -> Any:
        if isinstance(x, str):
            return parse_argument(x, mesh)
        if isinstance(x, jax.ShapeDtypeStruct) or not hasattr(x, "shape"):
            return x
        sharding = getattr(x, "sharding", None) if isinstance(x, jax.Array) else None
        return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding)

    if isinstance(value, tuple) and value and all(type(d) is int for d in value):
        return jax.ShapeDtypeStruct(value, "float32")
    return jax.tree.map(one, value, is_leaf=lambda x: isinstance(x, str))


_NAMES = ("x", "y", "z", "w")
_SHAPE = re.compile(r"^\d+(x\d+)*$")
_NAMED = re.compile(r"^([A-Za-z_]\w*)[=:](\d+)$")


def parse_mesh(text: str) -> dict[str, int]:
    """Axes and sizes of `4x4` (axes x, y) or `data=4,model=4`."""
    if _SHAPE.match(text):
        sizes = [int(s) for s in text.split("x")]
        if len(sizes) <= len(_NAMES) and min(sizes) > 0:
            return dict(zip(_NAMES, sizes, strict=False))
    matches = [_NAMED.match(part.strip()) for part in text.split(",")]
    axes = {m[1]: int(m[2]) for m in matches if m}
    if len(axes) != len(matches) or min(axes.values(), default=0) < 1:
        raise ConfigError(f"mesh {text!r}; give a shape such as 4x4, or data=4,model=4")
    return axes


def make_mesh(axes: dict[str, int], topology: str = "") -> Any:
    """A jax Mesh with these axes: of a TPU topology's devices, of those present, or of CPUs made for it."""
    count = math.prod(axes.values())
    devices = _topology(topology, count) if topology else _devices(count)
    import numpy as np
    from jax.sharding import Mesh

    return Mesh(np.array(devices[:count]).reshape(tuple(axes.values())), tuple(axes))


def _devices(count: int) -> list[Any]:
    flag = "--xla_force_host_platform_device_count"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}={count}".strip()
    import jax

    for devices in (jax.devices(), jax.devices("cpu")):
        if len(devices) >= count:
            return list(devices)
    raise ConfigError(
        f"a mesh of {count} devices, and JAX has started with {len(jax.devices())}; capture before "
        f"anything else uses JAX, or set XLA_FLAGS={flag}={count}"
    )


def _topology(name: str, count: int) -> list[Any]:
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    from jax.experimental import topologies

    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except Exception as error:  # whatever libtpu says, or that it is not there
        raise ConfigError(
            f"no TPU topology {name!r}: {str(error).splitlines()[0]}; it needs libtpu installed"
        ) from None
    devices = list(description.devices)
    if len(devices) < count:
        raise ConfigError(
            f"topology {name} has {len(devices)} devices and the mesh {count}; give a smaller --mesh"
        )
    return devices


def capture_jax(
    fn: Any, *shapes: Any, mesh: Any = "1", topology: str = ""
) -> tuple[TraceSet, CaptureReport]:
    """The traces of a compiled JAX function and their report; `chakrakit.capture_jax` says what it takes."""
    if find_spec("jax") is None:
        raise MissingExtra("capturing JAX programs", "jax")
    grid = make_mesh(parse_mesh(mesh), topology) if isinstance(mesh, str) else mesh
    module = _compiled(fn, shapes, grid)
    module.devices = max(module.devices, int(grid.devices.size))
    card = Card(
        name=module.name,
        tool="chakra capture",
        settings={"mesh": {str(k): int(v) for k, v in grid.shape.items()}},
    )
    program = program_of(module)
    bound = BoundProgram(program, card)
    traces = bound.traces()
    return traces, _report(program, bound, traces)


def _compiled(fn: Any, shapes: Sequence[Any], mesh: Any) -> Module:
    """The module that a function is compiled to, read from its protobuf form."""
    import jax

    with _set_mesh(mesh):
        if not hasattr(fn, "compile") and not hasattr(fn, "runtime_executable"):
            arguments = [abstract(s, mesh) for s in shapes]
            static = {"mesh": mesh} if _wants_mesh(fn) else {}
            jitted = (
                fn if hasattr(fn, "lower") else jax.jit(fn, static_argnames=tuple(static) or None)
            )
            fn = jitted.lower(*arguments, **static)
        compiled = fn.compile() if hasattr(fn, "compile") else fn
    modules = compiled.runtime_executable().hlo_modules()
    module = parse_hlo(modules[0].as_serialized_hlo_module_proto(), "the compiled module")
    module.allocated = _memory(compiled)
    return module


def _set_mesh(mesh: Any) -> Any:
    """The mesh as the current one; older versions have a mesh that is a context itself."""
    import jax

    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh


def _wants_mesh(fn: Any) -> bool:
    try:
        return "mesh" in inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return False


def _memory(compiled: Any) -> int:
    try:
        sizes = compiled.memory_analysis()
        return int(
            sizes.argument_size_in_bytes
            + sizes.output_size_in_bytes
            + sizes.temp_size_in_bytes
            - sizes.alias_size_in_bytes
        )
    except (AttributeError, NotImplementedError, RuntimeError):
        return 0  # a back end that does not say


def _report(program: HloProgram, bound: BoundProgram, traces: TraceSet) -> CaptureReport:
    dense = sum(
        flops(program.module, r.step.instruction, r.step.inside)[0]
        for r in program.rows
        if r.type == NodeType.COMP_NODE and r.step.kind == "compute"
    )
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for row in program.rows:
        if row.type == NodeType.COMP_NODE:
            continue
        if row.kind >= 0:
            key = (CollectiveType(row.kind).name, bound.role(row))
        else:
            key = ("SEND" if row.type == NodeType.COMM_SEND_NODE else "RECV", "permute")
        counts[key] += 1
        sizes[key] += row.size
    kinds = [
        KindFigures(len(ranks), len(traces.body_at(body)), dense, 0, program.peak)
        for body, ranks in traces.shares()
    ]
    rows = [CollectiveFigures(*key, counts[key], sizes[key]) for key in sorted(counts)]
    return CaptureReport(len(traces), kinds, rows, [], program.warnings, list(range(len(traces))))


def capture_jax_command(
    target: str,
    shapes: Sequence[str],
    output: str | os.PathLike[str] | None,
    *,
    mesh: str,
    topology: str = "",
) -> CaptureReport:
    """Capture as `chakra capture --jax MODULE:FUNCTION --mesh 4x4 SHAPES` does."""
    if find_spec("jax") is None:
        raise MissingExtra("capturing JAX programs", "jax")
    name, sign, function = target.partition(":")
    if not sign or not name or not function:
        raise ConfigError(f"--jax {target!r}; give MODULE:FUNCTION or FILE.py:FUNCTION")
    grid = make_mesh(parse_mesh(mesh), topology)
    with _failing_in(name):
        fn: Any = _imported(name)
        for part in function.split("."):
            if not hasattr(fn, part):
                raise ConfigError(f"{name} has no {part!r}")
            fn = getattr(fn, part)
        if not shapes and not hasattr(fn, "compile"):
            fn, arguments = _called(fn, grid)
        else:
            arguments = list(shapes)
        traces, report = capture_jax(fn, *arguments, mesh=grid)
    if output is not None:
        write(traces, output)
    return report


@contextmanager
def _failing_in(name: str) -> Iterator[None]:
    """Turns an error of the user's program into two lines that name the line it came from."""
    try:
        yield
    except ChakraError:
        raise
    except Exception as error:  # whatever a program may raise
        ours = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), "<")
        frames = traceback.extract_tb(error.__traceback__)
        program_frames = [
            f for f in frames if not f.filename.startswith(ours) and "-packages" not in f.filename
        ]
        where = (
            f"{Path(program_frames[-1].filename).name}:{program_frames[-1].lineno}"
            if program_frames
            else name
        )
        message = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"{where}: the program failed\n{type(error).__name__}: {message}"
        ) from None


def _imported(name: str) -> Any:
    path = Path(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"{name}: there is no such file")
        sys.path.insert(0, str(path.absolute().parent))
        name = path.stem
    else:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"cannot import {name!r}: {error}") from None


def _called(fn: Any, mesh: Any) -> tuple[Any, list[Any]]:
    """Calls a function given without shapes, which must return a jitted function and its arguments."""
    with _set_mesh(mesh):
        returned = fn(mesh) if inspect.signature(fn).parameters else fn()
    if hasattr(returned, "compile") or hasattr(returned, "runtime_executable"):
        return returned, []
    if isinstance(returned, tuple) and returned and callable(returned[0]):
        single = len(returned) == 2 and isinstance(returned[1], (tuple, list))
        return returned[0], list(returned[1]) if single else list(returned[1:])
    raise ConfigError(
        "the function gave neither (function, arguments) nor a lowered program; give the shapes of its "
        "arguments, such as f32[16,1024]@x,-, or let it return one of these"
    )
