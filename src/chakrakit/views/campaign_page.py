"""A page about a campaign: how long it takes, what the time is lost to, and what a change would give."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chakrakit.campaigns import CampaignResult
from chakrakit.insight import Answer
from chakrakit.insight.rank import Table
from chakrakit.views import charts
from chakrakit.views.charts import Markup, tag
from chakrakit.views.page import answer_card, page, table_markup


def campaign_html(result: CampaignResult) -> str:
    """The page as HTML."""
    facts = {
        "": f"{result.histories:,} histories",
        "seed": f"{result.seed}",
        "a step takes": f"{result.step_seconds:,.3g} s",
    }
    if result.checkpoint_interval_steps:
        facts["a checkpoint every"] = f"{result.checkpoint_interval_steps:,} steps"
    footer = (
        "Made by chakrakit (chakra campaign). With -o RUN, one history is written for a timeline."
    )
    return page(result.name, facts, *_content(result), footer=footer)


def _content(result: CampaignResult) -> Iterator[Markup]:
    yield tag("div", *map(answer_card, _answers(result)), class_="answers")
    for note in result.notes:
        yield tag("p", f"Note: {note}.", class_="facts")
    lost = [
        (cause, hours, f"{hours:,.2f} h", charts.color("late ranks"))
        for cause, hours in msgspec.structs.asdict(result.lost_hours).items()
        if hours
    ]
    if lost:
        lost.sort(key=lambda row: -row[1])
        yield charts.figure(
            "What the time is lost to", "Mean hours over all histories.", charts.bars(lost)
        )
    changes = [
        (
            c.change,
            abs(c.days_saved),
            f"{c.days_saved:+,.3f} days",
            charts.color("faster" if c.days_saved >= 0 else "slower"),
        )
        for c in result.sensitivity
    ]
    if changes:
        caption = "Days that each change saves (blue) or costs (orange), in the same histories."
        yield charts.figure("What a change would give", caption, charts.bars(changes))
    causes = [(cause, round(count, 3)) for cause, count in result.failures_by_cause.items()]
    if causes:
        yield table_markup(Table.of("Failures by cause, mean", ("cause", "failures"), causes))


def _answers(result: CampaignResult) -> Iterator[Answer]:
    days, ratio = result.days, result.effective_ratio
    yield Answer(
        question="How long does it take?",
        figure=f"{days.mean:,.3f} days",
        sentence=f"90 of 100 histories take {days.p5:,.3f} to {days.p95:,.3f} days.",
    )
    yield Answer(
        question="How much of it is useful?",
        figure=f"{result.effective_share:.2%}",
        sentence=f"5 to 95 % of histories: {ratio.p5:.2%} to {ratio.p95:.2%}. "
        f"{result.steps_per_day:,.1f} steps per day.",
        share=result.effective_share,
    )
    between = f", one every {result.mtbf_hours:,.1f} h of running" if result.mtbf_hours else ""
    yield Answer(
        question="How often does it fail?",
        figure=f"{result.failures:,.2f} failures",
        sentence=f"The mean history has {result.restarts:,.2f} restarts{between}.",
    )
    if result.excluded:
        yield Answer(
            question="Which nodes were slow?",
            figure=f"{result.excluded:,.1f} excluded",
            sentence=f"{result.excluded_nodes} and were excluded; those that were used cost "
            f"{result.lost_hours.degraded:,.2f} hours.",
        )
    if result.node_hour_price is not None:
        yield Answer(
            question="What did nodes cost?",
            figure=f"{result.node_hour_price:,.2f} an hour",
            sentence=f"They were taken away {result.preemptions:,.1f} times, for "
            f"{result.lost_hours.preempted:,.2f} hours; {result.price or 0:,.0f} in all.",
        )
    if result.retries is not None:
        yield Answer(
            question="Does starting again help?",
            figure=f"{result.retries.success.mean:.1%} last",
            sentence=f"{result.retries.share_that_lasts}; {result.retries.took}.",
            share=result.retries.success.mean,
        )
