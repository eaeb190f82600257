"""What `chakra search --serve` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chakrakit.cli.shared import console, print_table

if TYPE_CHECKING:
    from chakrakit.studies.search import ServingPlan, ServingSearchResult

_HEAD = (
    "",
    "devices",
    "engines",
    "tokens",
    "requests",
    "within level",
    "TTFT ms",
    "TPOT ms",
    "tokens/s",
    "$/h",
)


def print_served(found: ServingSearchResult) -> None:
    """The best way, the others, and why."""
    plans = [("best", found.best), *((str(i), r) for i, r in enumerate(found.runners_up, 2))]
    print_table(_HEAD, [(name, *_cells(plan)) for name, plan in plans])
    lines = [
        *(f"{name}: {plan.why}" for name, plan in plans),
        f"{found.served:,} ways served, {found.given_up:,} of them given up when they had missed "
        f"{found.level}; {found.over_memory:,} do not fit; on {found.machine}",
        f"again: {found.command}",
    ]
    for line in lines:
        console().print(line, markup=False)


def _cells(plan: ServingPlan) -> tuple[object, ...]:
    return (
        plan.devices,
        plan.engines,
        plan.batch_tokens,
        plan.batch_requests,
        f"{plan.attained:.1%}",
        f"{plan.ttft_ms:,.1f}",
        f"{plan.tpot_ms:,.1f}",
        f"{plan.output_tokens_per_s:,.0f}",
        f"{plan.price_per_hour:,.2f}" if plan.price_per_hour else "",
    )
