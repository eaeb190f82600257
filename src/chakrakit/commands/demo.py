"""`demo`: a model that never ran, on two networks that need not exist, and a page about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.options import Option
from chakrakit.commands.output import console

ETHERNET = """\
# dgx-h100 with 100 Gb/s Ethernet between its nodes; all else is the same, the communication library too.
base: dgx-h100
name: h100-ethernet-100g
nodes: 8
network:
  - {}
  - {bandwidth: 100 Gb/s, latency: 2 us}
"""


@command_of()
def command(
    output: Annotated[str, Option("Where to put the files.", flags="-o --output")] = "demo-out",
) -> None:
    """Generate Llama-3.1-8B on 64 GPUs, simulate it on two networks, compare, and write a report.

    \b
    chakra demo
    chakra demo -o /tmp/demo
    """
    from chakrakit.commands import main
    from chakrakit.trace.files import replacing

    folder = Path(output)
    with replacing(folder / "ethernet.yaml") as temporary:
        temporary.write_text(ETHERNET)
    for title, line in _story(folder):
        if title:
            console().rule(title)
        console().print(f"$ chakra {line}\n")
        main(line.split(), standalone_mode=False)
    console().rule("Done")
    console().print(
        f"Open {folder / 'report.html'} in a browser; the timeline {folder / 'run.pftrace'} "
        "opens in ui.perfetto.dev.\nLook at both runs, one above the other: "
        f"chakra view {folder / 'infiniband'} {folder / 'ethernet'}"
    )


def _story(folder: Path) -> list[tuple[str, str]]:
    """Titles and command lines."""
    work, fast, slow = folder / "workload", folder / "infiniband", folder / "ethernet"
    plan = "--dp 8 --tp 8 --seq 8192 --global-batch 64 --micro-batch 1"
    return [
        (
            "1. Llama-3.1-8B on 64 GPUs, without running it",
            f"generate --model llama-3.1-8b {plan} -o {work}",
        ),
        ("2. Is it a good trace?", f"validate {work}"),
        ("3. On eight DGX H100", f"simulate {work} --machine dgx-h100:8 -o {fast}"),
        (
            "4. The same GPUs on 100 Gb/s Ethernet",
            f"simulate {work} --machine {folder / 'ethernet.yaml'} -o {slow}",
        ),
        (
            "5. A page to look at, and a timeline",
            f"report {slow} --against {fast} --peak-tflops 989 --peak-gbps 3350 -o {folder / 'report.html'}",
        ),
        ("", f"export {slow} {folder / 'run.pftrace'} --rank 0"),
        # Last, so that the answer is on the screen when the demo ends.
        ("6. What makes the difference?", f"compare {fast} {slow}"),
    ]
