"""`chakra capture`: the traces of a program on ranks that need not exist."""

from __future__ import annotations

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table


def _values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        place, sign, number = text.rpartition("=")
        try:
            found[place] = float(number)
        except ValueError:
            sign = ""
        if not sign or not place:
            raise click.BadParameter(f"{text!r} should look like train.py:12=0.5")
    return found


@click.command(name="capture", context_settings={"ignore_unknown_options": True})
@click.option("--ranks", type=click.IntRange(min=1), help="Number of ranks.")
@click.option(
    "--device",
    default="",
    metavar="NAME",
    help="GPU that the program is told it has, such as h100.",
)
@click.option(
    "--steps", metavar="A:B", help="Steps to record, B not included; by default the second."
)
@click.option(
    "--value",
    "values",
    multiple=True,
    callback=_values,
    metavar="FILE:LINE=NUMBER",
    help="The value that the program reads at that line, where it decides by it.",
)
@click.option(
    "-o", "--output", metavar="OUT", help="A directory, or NAME.N.et for one file per rank."
)
@click.option(
    "--jax", "jax_target", metavar="MODULE:FUNCTION", help="Compile a JAX function instead."
)
@click.option("--mesh", metavar="SHAPE", help="Devices for --jax: 4x4, or data=4,model=4.")
@click.option(
    "--topology",
    default="",
    metavar="NAME",
    help="TPU topology for --jax, such as v5e:4x4; needs libtpu.",
)
@json_option
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(
    ranks: int | None,
    device: str,
    steps: str | None,
    values: dict[str, float],
    output: str | None,
    jax_target: str | None,
    mesh: str | None,
    topology: str,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Capture PROGRAM (after --) as it would run on any number of ranks, with nothing allocated.

    One rank of each kind is run with fake tensors and fake process groups; all ranks come out, folded.
    A step ends with the optimizer's step.

    With --jax a function is compiled for a mesh, and what XLA makes of it is read. PROGRAM is then the shapes
    of its arguments; without any, the function is called with the mesh and returns (function, arguments).

    \b
    chakra capture --ranks 1024 --device h100 -o out -- torchrun train.py --layers 32
    chakra capture --jax model:step --mesh 4x4 -o out 'f32[512,1024]@x,-' 'f32[1024,4096]@-,y'
    """
    if jax_target is not None:
        from chakrakit.sources.xla.jax import capture_jax_command

        if mesh is None and ranks is None:
            raise click.UsageError("give --mesh, such as 4x4")
        report = capture_jax_command(
            jax_target, program, output, mesh=mesh or str(ranks), topology=topology
        )
    else:
        from chakrakit.sources.capture import capture_command
        from chakrakit.trace.files import private_temporary

        if ranks is None:
            raise click.UsageError("give --ranks N")
        with private_temporary("chakra-capture"):  # PyTorch leaves empty caches where they go
            report = capture_command(
                program, output, ranks=ranks, device=device, steps=steps, values=values
            )
    if as_json:
        return print_json(report)
    _print(report, output)
    return None


def _print(report: object, output: str | None) -> None:
    from chakrakit.results import counted
    from chakrakit.sources.capture import CaptureReport

    assert isinstance(report, CaptureReport)
    print_table(
        ("kind", "ranks", "nodes", "GFLOP", "parameters", "peak MiB"),
        (
            (i, k.ranks, k.nodes, f"{k.flops / 1e9:,.3f}", k.parameters, k.peak_bytes >> 20)
            for i, k in enumerate(report.kinds)
        ),
    )
    print_table(
        ("communication", "group", "count", "bytes"),
        ((c.type, c.group, c.count, c.bytes) for c in report.collectives),
    )
    out = console()
    for text in report.stubbed:
        out.print(f"stubbed: {text}")
    for text in report.warnings:
        out.print(f"warning: {text}")
    out.print(
        f"wrote {counted(report.ranks, 'rank')} in {counted(len(report.kinds), 'body', 'bodies')} to {output}"
        if output
        else "nothing written; give -o OUT"
    )
