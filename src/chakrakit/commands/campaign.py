"""`campaign`: months of training with failures, checkpoints and recovery."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import EngineOption, Path_
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.campaigns import CampaignJob, CampaignResult


class CampaignOptions(EngineOption, total=False):
    """Options of `campaign`."""

    histories: Annotated[int, Option("How many random histories to run.", 100, least=1)]
    seed: Annotated[int, Option("Seed of all histories: the same seed gives the same ones.", 0)]
    changes: Annotated[
        bool, Option("Compute what changes, such as one more spare, would give.", True)
    ]
    output: Annotated[
        Path_ | None,
        Option("Write one history as a Run.", None, flags="-o --output", metavar="RUN"),
    ]
    history: Annotated[int, Option("Which history -o writes.", 0, least=0)]
    allow_programs: Annotated[
        bool, Option("Run the programs whose policies the job names (FILE.py:CLASS).", False)
    ]
    jobs: Annotated[
        int | None,
        Option(
            "Workers at once; by default one per core for 1,000 histories or more.",
            None,
            metavar="N",
            least=1,
        ),
    ]


@public(CampaignOptions)
def campaign(
    job: Annotated[
        Path_ | CampaignJob | Mapping[str, Any],
        Positional(
            "The job's file (docs/campaigns.md), or in Python what would stand in it as a dictionary, "
            "or a `CampaignJob`.",
            metavar="JOB.yaml",
        ),
    ],
    **options: Unpack[CampaignOptions],
) -> CampaignResult:
    """Run many random histories of a training campaign with failures, checkpoints and recovery.

    Returns
    -------
    A `CampaignResult` with days, effective ratio, time lost by cause, and more.

    Examples
    --------
    >>> ck.campaign({"step_seconds": 10, "steps": 8640, "cluster": {"nodes": 16}}).days.mean
    1.0

    """
    from chakrakit.campaigns import CampaignJob, history_run, read_job, workers_for
    from chakrakit.campaigns import campaign as run_campaign
    from chakrakit.trace.storage import write

    if not isinstance(job, (CampaignJob, Mapping)):
        job = os.fspath(job)
    described = job if isinstance(job, CampaignJob) else read_job(job, options["allow_programs"])
    histories, seed = options["histories"], options["seed"]
    workers = workers_for(histories, options["engine"], options["jobs"])
    if described.runs_programs:  # classes of a file are known to this process alone
        workers = None
    result = run_campaign(
        described, histories=histories, seed=seed, workers=workers, changes=options["changes"]
    )
    if options["output"] is not None:
        write(history_run(described, options["history"], seed), options["output"])
    elif described.telemetry is not None:
        result.notes.append("telemetry is of one history: it is written with -o RUN")
    return result


@command_of(campaign)
def command(*, json: Json = False, **options: Any) -> None:
    """Run many histories of a training campaign: how long it takes, and what the time is lost to.

    JOB.yaml gives a step's time (or a workload and a machine, or a Run), the cluster, how it fails, and
    what is done about it; docs/campaigns.md says how. The same seed gives the same histories.

    \b
    chakra campaign job.yaml
    chakra campaign job.yaml --json
    """
    result = campaign(**options)
    if json:
        return print_json(result)
    return _print(result)


def _spent(result: CampaignResult) -> str:
    """Energy and price of the whole job, as far as the job's file says what nodes draw and cost."""
    energy = f"{result.energy_kwh:,.0f} kWh" if result.energy_kwh is not None else ""
    price = f"${result.price:,.0f}" if result.price is not None else ""
    return ", ".join(part for part in (energy, price) if part)


def _print(result: CampaignResult) -> None:
    from chakrakit.results import three_digits

    out = console()
    for note in result.notes:
        out.print(f"note: {note}")
    days, ratio = result.days, result.effective_ratio
    if result.days_interval is not None:
        low, high = (three_digits(bound) for bound in result.days_interval)
        out.print(
            f"{three_digits(days.mean)} days ({low}–{high}) with what the predicted step may be off by"
        )
    out.print(
        f"{days.mean:,.3f} days (5 to 95 %: {days.p5:,.3f} to {days.p95:,.3f}), "
        f"{result.effective_share:.2%} of them effective; {result.histories:,} histories, of which 5 to 95 % "
        f"are {ratio.p5:.2%} to {ratio.p95:.2%} effective"
    )
    out.print(f"{result.failures:,.2f} failures, {result.steps_per_day:,.1f} steps per day")
    out.print(result.what_cost_the_days)
    if result.node_hour_price is not None:
        out.print(
            f"nodes taken away {result.preemptions:,.1f} times, {result.node_hour_price:,.2f} for a "
            f"node-hour on average, {result.price or 0:,.0f} in all"
        )
    elif spent := _spent(result):
        out.print(spent)
    if result.excluded:
        out.print(f"{result.excluded_nodes} and were excluded")
    if result.retries:
        out.print(f"retries: {result.retries.share_that_lasts}; {result.retries.took}")
    lost = result.lost_hours
    names = sorted(lost.__struct_fields__, key=lambda name: -getattr(lost, name))
    rows = [(name, f"{getattr(lost, name):,.3f}") for name in names]
    print_table(("lost to", "hours"), rows)
    changes = [
        (c.change, f"{c.days_saved:+,.3f}", f"{c.effective_share:.2%}") for c in result.sensitivity
    ]
    if changes:
        print_table(("change", "days saved", "effective"), changes)
        if result.sensitivity_histories < result.histories:
            out.print(
                f"changes: of the first {result.sensitivity_histories} histories, with and without them"
            )
