"""`chakra demo`: a small trace made, described, checked, scheduled and converted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.output import console, print_table

if TYPE_CHECKING:
    from chakrakit.trace.trace import Trace


@click.command(name="demo")
@click.option(
    "-o", "--output", default="demo-out", show_default=True, help="Where to put the files."
)
def command(output: str) -> None:
    """Make a small two-rank training step, and show what can be done with it."""
    import chakrakit as ck
    from chakrakit.cli import main

    out, folder = console(), Path(output)
    traces = ck.TraceSet([_step()], {rank: ck.Binding(0) for rank in range(2)}, ck.Groups({"1": [0, 1]}),
                         ck.Card(name="step", tool="chakra demo"))  # fmt: skip
    ck.write(traces, folder)
    for title, argv in (
        ("1. A training step of two ranks that share one program", ["info", output]),
        ("2. Is it a good trace?", ["validate", output]),
    ):
        out.rule(title, align="left")
        main(argv, standalone_mode=False)
    out.rule("3. When does each node run?", align="left")
    _print_schedule(traces.trace(0))
    out.rule("4. The same trace for other tools", align="left")
    for name in ("step.json", "step.parquet", "ranks/step.N.et"):
        source = str(folder) if ".N." in name else str(folder / "step.0.et")
        main(["convert", source, str(folder / name)], standalone_mode=False)
        out.print(f"{folder / name}")
    out.print(f"\nLook at {folder}, or ask: chakra query {folder} "
              "\"select type, count(*) as nodes from nodes group by all\"")  # fmt: skip


def _step() -> Trace:
    """Two layers forward and backward; gradients are summed while the backward goes on."""
    import chakrakit as ck

    t = ck.TraceBuilder()
    forward = [t.comp("layer 0 forward", duration_ns=120_500, num_ops=8 << 30, stream=7)]
    forward.append(
        t.comp("layer 1 forward", duration_ns=118_250, num_ops=8 << 30, stream=7, deps=forward)
    )
    back1 = t.comp(
        "layer 1 backward", duration_ns=240_000, num_ops=16 << 30, stream=7, deps=forward[1:]
    )
    sum1 = t.collective("layer 1 gradients", ck.CollectiveType.ALL_REDUCE, 64 << 20, pg_name="1",
                        duration_ns=310_000, stream=20, deps=[back1])  # fmt: skip
    back0 = t.comp(
        "layer 0 backward", duration_ns=241_750, num_ops=16 << 30, stream=7, deps=[back1]
    )
    sum0 = t.collective("layer 0 gradients", ck.CollectiveType.ALL_REDUCE, 64 << 20, pg_name="1",
                        duration_ns=310_000, stream=20, deps=[back0])  # fmt: skip
    t.comp("optimizer", duration_ns=45_125, stream=7, deps=[sum1, sum0])
    return t.build()


def _print_schedule(trace: Trace) -> None:
    import chakrakit as ck

    times = ck.schedule(len(trace), trace.edges, trace.duration_ns, resource=trace.column("stream"))
    rows = [
        (trace[i].name, f"{times.start[i] / 1e3:,.2f}", f"{times.end[i] / 1e3:,.2f}",
         trace[int(b)].name if (b := times.binding[i]) >= 0 else "")
        for i in range(len(trace))
    ]  # fmt: skip
    print_table(("node", "start µs", "end µs", "waited for"), rows)
    console().print(f"the step takes {times.makespan / 1e3:,.2f} µs")
