"""`capture_jax`: a JAX function compiled for a mesh, and what it was compiled to as traces."""

from __future__ import annotations

import inspect
import os
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
from chakrakit.sources.capture import CaptureReport, CollectiveFigures, KindFigures
from chakrakit.sources.xla.hlo import Module, parse_hlo
from chakrakit.sources.xla.jax.arguments import abstract
from chakrakit.sources.xla.jax.mesh import make_mesh, parse_mesh
from chakrakit.sources.xla.program import Bound, Program, flops, program_of
from chakrakit.trace.model import CollectiveType, NodeType
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.trace.storage import write


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
    bound = Bound(program, card)
    traces = bound.traces()
    return traces, _report(program, bound, traces)


def _compiled(fn: Any, shapes: Sequence[Any], mesh: Any) -> Module:
    """The scheduled module, by way of its protobuf form."""
    import jax

    with _set_mesh(mesh):
        if not hasattr(fn, "compile") and not hasattr(fn, "runtime_executable"):
            arguments = [abstract(s, mesh) for s in shapes]
            given = {"mesh": mesh} if _wants_mesh(fn) else {}
            jitted = (
                fn if hasattr(fn, "lower") else jax.jit(fn, static_argnames=tuple(given) or None)
            )
            fn = jitted.lower(*arguments, **given)
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
        found = compiled.memory_analysis()
        return int(
            found.argument_size_in_bytes
            + found.output_size_in_bytes
            + found.temp_size_in_bytes
            - found.alias_size_in_bytes
        )
    except (AttributeError, NotImplementedError, RuntimeError):
        return 0  # a back end that does not say


def _report(program: Program, bound: Bound, traces: TraceSet) -> CaptureReport:
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
    return CaptureReport(len(traces), kinds, rows, [], program.warnings)


def capture_jax_command(
    target: str,
    shapes: Sequence[str],
    output: str | os.PathLike[str] | None,
    *,
    mesh: str,
    topology: str = "",
) -> CaptureReport:
    """`chakra capture --jax MODULE:FUNCTION --mesh 4x4 SHAPES`."""
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
            fn, given = _made(fn, grid)
        else:
            given = list(shapes)
        traces, report = capture_jax(fn, *given, mesh=grid)
    if output is not None:
        write(traces, output)
    return report


@contextmanager
def _failing_in(name: str) -> Iterator[None]:
    """Says in two lines, with a line of the user's, what failed in their program."""
    try:
        yield
    except ChakraError:
        raise
    except Exception as error:  # whatever a program may raise
        ours = (str(Path(__file__).parents[3]), sysconfig.get_path("stdlib"), "<")
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            f for f in frames if not f.filename.startswith(ours) and "-packages" not in f.filename
        ]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else name
        said = str(error).strip().partition("\n")[0]
        raise ConfigError(f"{where}: the program failed\n{type(error).__name__}: {said}") from None


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


def _made(fn: Any, mesh: Any) -> tuple[Any, list[Any]]:
    """A function without shapes makes what is captured: a jitted function and its arguments."""
    with _set_mesh(mesh):
        made = fn(mesh) if inspect.signature(fn).parameters else fn()
    if hasattr(made, "compile") or hasattr(made, "runtime_executable"):
        return made, []
    if isinstance(made, tuple) and made and callable(made[0]):
        single = len(made) == 2 and isinstance(made[1], (tuple, list))
        return made[0], list(made[1]) if single else list(made[1:])
    raise ConfigError(
        "the function gave neither (function, arguments) nor a lowered program; give the shapes of its "
        "arguments, such as f32[16,1024]@x,-, or let it return one of these"
    )
