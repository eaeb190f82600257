"""`capture`: the traces of a program on ranks that need not exist, with PyTorch or JAX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, fields_of, picked, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.sources.capture import capture as Capturing  # noqa: N812 - a class
    from chakrakit.sources.capture.folding import CaptureReport
    from chakrakit.trace.sets import TraceSet

JaxOption = partial(Option, group="With --jax")


def values_of(texts: Iterable[str]) -> dict[str, float]:
    """`["train.py:12=0.5"]` as numbers by place."""
    values = {}
    for text in texts:
        place, sign, number = text.rpartition("=")
        try:
            values[place] = float(number)
        except ValueError:
            sign = ""
        if not sign or not place:
            raise ValueError("it should look like train.py:12=0.5")
    return values


class CaptureSettings(TypedDict, total=False):
    """Options of `capture`."""

    device: Annotated[
        str,
        Option(
            "Name of a GPU, such as h100: the program is told that it has one, and operators are those "
            "that PyTorch chooses there. Without it the program runs on the devices it names.",
            "",
            metavar="NAME",
        ),
    ]
    steps: Annotated[
        tuple[int, int] | str | None,
        Option(
            "First step to record and the one after the last; a step ends with the optimizer's. By "
            "default the second step, or the only one.",
            None,
            metavar="A:B",
        ),
    ]
    step_ends: Annotated[
        str,
        Option(
            "A function whose return ends a step, instead of the optimizer's: generate, Model.generate "
            "or package.module.function. For programs that infer.",
            "",
            metavar="CALL",
        ),
    ]
    values: Annotated[
        Mapping[str, float] | Iterable[str],
        Option(
            "The value that the program reads at that line, where it decides by it.",
            (),
            flags="--value",
            metavar="FILE:LINE=NUMBER",
            parse=values_of,
        ),
    ]
    output: Annotated[
        Path_ | None,
        Option(
            "Where to write the traces: a directory, or NAME.N.et for one file per rank.",
            None,
            flags="-o --output",
            metavar="OUT",
        ),
    ]


@public(CaptureSettings)
def capture(
    ranks: Annotated[int, Option("Number of ranks.", least=1)], **options: Unpack[CaptureSettings]
) -> Capturing:
    """Capture the surrounding program as one of `ranks` ranks, with nothing allocated and no network.

        with chakrakit.capture(ranks=1024, device="h100") as c:
            train()
        c.traces  # a folded TraceSet of all 1,024 ranks
        c.report  # what `chakra capture --json` prints

    The block runs here as rank 0 and ends after the last step asked for. It runs again, in processes of
    their own, for further ranks, as many as it takes to know all kinds of them.

    Examples
    --------
    >>> with ck.capture(ranks=1024, device="h100", output="traces"):  # doctest: +SKIP
    ...     train()

    """
    from chakrakit.sources.capture import capture as Capturing  # noqa: N812 - a class

    return Capturing(ranks, **options)  # type: ignore[arg-type]  # values are parsed


class JaxOptions(TypedDict, total=False):
    """Options of `capture_jax`."""

    mesh: Annotated[
        Any,
        JaxOption(
            "Devices: 4x4 (axes x and y), or data=4,model=4; in Python also a `jax.sharding.Mesh`. CPU "
            "devices are made where there are not enough others.",
            None,
            metavar="SHAPE",
        ),
    ]
    topology: Annotated[
        str,
        JaxOption(
            "A TPU topology to compile for, such as v5e:4x4, where libtpu is installed.",
            "",
            metavar="NAME",
        ),
    ]


@public(JaxOptions)
def capture_jax(
    fn: Annotated[
        Any,
        Positional(
            "A function, jitted or not, or what `jax.jit(…).lower(…)` gives. A parameter called `mesh` is "
            "given the mesh."
        ),
    ],
    *shapes: Annotated[
        Any,
        Positional(
            "Its arguments: `jax.ShapeDtypeStruct`s or arrays (also trees of them), shapes, or text such "
            "as `bf16[16,1024]@x,-`, which cuts the first dimension along the mesh's axis x."
        ),
    ],
    **options: Unpack[JaxOptions],
) -> tuple[TraceSet, CaptureReport]:
    """Compile a JAX function for a mesh without running it; the traces of all its devices.

    Returns
    -------
    A folded TraceSet and the report that `chakra capture --json` prints.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> def product():
    ...     _, report = ck.capture_jax(lambda x, w: x @ w, "f32[8,16]", "f32[16,4]", mesh="1")
    ...     return report.kinds[0].flops
    >>> product() if find_spec("jax") else 1024
    1024

    """
    from chakrakit.sources.xla import capture_jax as compiled

    mesh = "1" if options["mesh"] is None else options["mesh"]
    return compiled(fn, *shapes, mesh=mesh, topology=options["topology"])


@command_of(capture, capture_jax, without=["fn", "shapes"], ignore_unknown_options=True)
def command(
    program: Annotated[
        tuple[str, ...],
        Positional("What to run; with --jax, the shapes of the function's arguments.", words=-1),
    ] = (),
    *,
    ranks: Annotated[int | None, Option("Number of ranks.", least=1)] = None,
    jax: Annotated[
        str | None, JaxOption("Compile a JAX function instead.", metavar="MODULE:FUNCTION")
    ] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Capture PROGRAM (after --) as it would run on any number of ranks, with nothing allocated.

    One rank of each kind is run with fake tensors and fake process groups; all ranks come out, folded.
    A step ends with the optimizer's step, or when the function that --step-ends names returns; without an
    optimizer also with the steps of PyTorch's profiler.

    With --jax a function is compiled for a mesh, and what XLA makes of it is read. PROGRAM is then the shapes
    of its arguments; without any, the function is called with the mesh and returns (function, arguments).

    \b
    chakra capture --ranks 1024 --device h100 -o out -- torchrun train.py
    chakra capture --ranks 8 --step-ends generate -o out -- python infer.py
    chakra capture --jax model:step --mesh 4x4 -o out 'f32[512,1024]@x,-'
    """
    if jax is None and ranks is None:
        raise click.UsageError("give --ranks N")
    if jax is not None and ranks is None and options["mesh"] is None:
        raise click.UsageError("give --mesh, such as 4x4")
    if options["output"] is None and not json:
        raise click.UsageError("give -o OUT for the traces, or --json for the report alone")
    report = (
        _captured(program, ranks, options)  # type: ignore[arg-type]  # given, as was checked
        if jax is None
        else _compiled(jax, program, ranks, options)
    )
    if json:
        return print_json(report)
    return _print(report, options["output"], options["device"])


def _captured(program: tuple[str, ...], ranks: int, options: dict[str, Any]) -> CaptureReport:
    from chakrakit.sources.capture import capture_command
    from chakrakit.trace.files import private_temporary

    settings = {p.name: p.value_of(options[p.name]) for p in fields_of(CaptureSettings)}
    with private_temporary("chakra-capture"):  # PyTorch leaves empty caches where they go
        return capture_command(program, ranks=ranks, **settings)


def _compiled(
    target: str, shapes: tuple[str, ...], ranks: int | None, options: dict[str, Any]
) -> CaptureReport:
    from chakrakit.sources.xla import capture_jax_command

    mesh_option = {"mesh": options["mesh"] or str(ranks)}
    return capture_jax_command(target, shapes, **picked(capture_jax_command, options) | mesh_option)


def _print(report: CaptureReport, output: str, device: str | None) -> None:
    from chakrakit.insight import ranks_text
    from chakrakit.results import counted

    bodies = counted(len(report.kinds), "body", "bodies")
    console().print(f"wrote {counted(report.ranks, 'rank')} in {bodies} to {output}")
    if len(report.ran) < report.ranks:
        console().print(
            f"ran {ranks_text(report.ran)}; the others are taken to be like these, by their places in groups"
        )
    print_table(
        ("kind", "ranks", "nodes", "GFLOP", "parameters", "peak MiB"),
        (
            (i, k.ranks, k.nodes, f"{k.flops / 1e9:,.3f}", k.parameters, k.peak_bytes >> 20)
            for i, k in enumerate(report.kinds)
        ),
    )
    one = f"communication of one rank{', of the first kind that has it' * (len(report.kinds) > 1)}"
    if report.collectives:
        console().print(f"{one}; bytes are what it puts in")
        print_table(
            ("communication", "group", "count", "bytes"),
            ((c.type, c.group, c.count, c.bytes) for c in report.collectives),
        )
    out = console()
    for text in report.stubbed:
        out.print(f"stubbed: {text}")
    for text in report.warnings:
        out.print(f"warning: {text}")
    machine = _machine_of(device, report.ranks)
    out.print(f"more: chakra simulate {output} --machine {machine}, chakra info {output}")


def _machine_of(device: str | None, ranks: int) -> str:
    """A preset with the device that the program was told it has, and as many nodes as the ranks need."""
    from chakrakit.machines import load_machine, preset_on

    preset = preset_on(device or "") or "dgx-h100"
    each = load_machine(preset).size
    return preset if ranks <= each else f"{preset}:{-(-ranks // each)}"
