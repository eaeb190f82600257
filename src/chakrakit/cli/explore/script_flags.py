"""What `chakra search --capture` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.cli.shared import console, print_table

if TYPE_CHECKING:
    from chakrakit.studies.search import ScriptPlan, ScriptSearchResult


def print_script(found: ScriptSearchResult, output: str | None) -> None:
    """The best flags, the others, why, and what was refused."""
    plans = [("best", found.best), *((str(i), r) for i, r in enumerate(found.runners_up, 2))]
    head = ("", "gpus", *found.best.flags, "step ms", "MFU %", "GiB")
    print_table(head, [(name, *_cells(plan)) for name, plan in plans])
    lines = [f"{name}: {plan.why}" for name, plan in plans]
    for one in found.refused:
        flags = " ".join(f"{name}={value}" for name, value in one.flags.items())
        lines.append(f"refused: {one.gpus} gpus {flags}: {one.error}")
    lines.append(
        f"{found.evaluated:,} combinations simulated, {len(found.refused):,} refused; by "
        f"{found.objective}, on {found.machine}"
    )
    lines.append(f"again: chakra capture --ranks {found.best.gpus} -- {found.best.command}")
    if output:
        lines.append(f"again: chakra simulate {output} --machine {found.machine}")
    for line in lines:
        console().print(line, markup=False)


def _cells(plan: ScriptPlan) -> tuple[object, ...]:
    mfu = "" if plan.mfu is None else f"{100 * plan.mfu:.1f}"
    memory = f"{plan.memory_bytes / 2**30:.1f}"
    return (plan.gpus, *plan.flags.values(), f"{plan.step_ns / 1e6:,.1f}", mfu, memory)
