"""`chakra campaign`: months of training with failures, checkpoints and recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.shared import console, engine_option, json_option, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.campaigns.results import CampaignResult


@click.command(name="campaign")
@click.argument("path", metavar="JOB.yaml")
@click.option(
    "--histories",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many random histories to run.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of all histories.")
@click.option(
    "--no-changes",
    is_flag=True,
    help="Do not compute what changes, such as one more spare, would give.",
)
@click.option("-o", "--output", metavar="RUN", help="Write one history as a Run.")
@click.option(
    "--history",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Which history -o writes.",
)
@engine_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Workers at once; by default one per core for 1,000 histories or more.",
)
@json_option
def command(path: str, no_changes: bool, as_json: bool, **settings: Any) -> None:
    """Run many histories of a training campaign: how long it takes, and what the time is lost to.

    JOB.yaml gives a step's time (or a workload and a machine, or a Run), the cluster, how it fails, and
    what is done about it; docs/campaigns.md says how. The same seed gives the same histories.
    """
    from chakrakit.api import campaign

    result = campaign(path, changes=not no_changes, **settings)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: CampaignResult) -> None:
    out = console()
    for note in result.notes:
        out.print(f"note: {note}")
    days, ratio = result.days, result.effective_ratio
    out.print(
        f"{days.mean:,.3f} days (5 to 95 %: {days.p5:,.3f} to {days.p95:,.3f}), "
        f"{ratio.mean:.2%} of them effective ({ratio.p5:.2%} to {ratio.p95:.2%}); "
        f"{result.histories:,} histories"
    )
    out.print(f"{result.failures:,.2f} failures, {result.steps_per_day:,.1f} steps per day")
    lost = result.lost_hours
    names = sorted(lost.__struct_fields__, key=lambda name: -getattr(lost, name))
    rows = [(name, f"{getattr(lost, name):,.3f}") for name in names]
    print_table(("lost to", "hours"), rows)
    changes = [
        (c.change, f"{c.days_saved:+,.3f}", f"{c.effective_ratio:.2%}") for c in result.sensitivity
    ]
    if changes:
        print_table(("change", "days saved", "effective"), changes)
