"""The report: one page about a run that works offline, the answers first; as HTML or Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlencode

import msgspec

from chakrakit.insight import (
    Analysis,
    Comparison,
    EngineFacts,
    RankTime,
    RequestFacts,
    ServingChange,
    ServingFacts,
    advice_table,
    answers,
    named_ranks,
    network_tables,
    saving_text,
    server_table,
    tier_table,
)
from chakrakit.insight.rank import Cell, Table, ms, short
from chakrakit.results import counted, size_text, time_text
from chakrakit.views import charts
from chakrakit.views.charts import Markup, join, tag
from chakrakit.views.colors import REQUEST_PARTS
from chakrakit.views.lines import Line, line_chart
from chakrakit.views.page import answer_card, cell_text, details, page, table_markup

_MOST_ENGINES = 16
"""Engines drawn as lines of one chart; there are eight colours, and more lines could not be told apart."""
_PARTS = REQUEST_PARTS


def serving_parts(a: Analysis) -> Iterator[Markup]:
    """The section on requests and engines; empty for a run that served no requests."""
    serving = a.serving
    if serving is None:
        return
    yield table_markup(serving.tables()[0])
    rows = [("mean request", [(n, ms * 1e6) for n, ms in serving.parts.items()])]
    yield join(
        tag("p", *(_key(name, kind) for name, kind in _PARTS.items()), class_="legend"),
        charts.figure(
            "Where a request spends its time",
            "The mean request, from arrival to its last token.",
            charts.stacked(rows, max(serving.e2e_ms.mean * 1e6, 1e-6), _PARTS),
        ),
        charts.figure(
            "Requests from arrival to end",
            f"{len(serving.shown):,} of {serving.requests:,}, spread over the stream: queue, prompt, output. "
            "Ctrl and scroll to zoom, drag to move, double click for all.",
            _request_lanes(serving),
        ),
    )
    yield from _engines(serving)
    for table in serving.tables()[1:]:
        yield table_markup(table)


def _key(name: str, kind: str) -> Markup:
    return tag("span", tag("i", style=f"background:{charts.color(kind)}"), name)


def _request_lanes(serving: ServingFacts) -> Markup:
    names = [f"request {r.request}" for r in serving.shown]
    pieces = [
        (
            lane,
            begin,
            end,
            charts.color(_PARTS[part]),
            f"request {r.request}, {part}: {end - begin:,.1f} ms",
        )
        for lane, r in enumerate(serving.shown)
        for part, begin, end in _spans(r)
    ]
    last = max((r.finish_ms for r in serving.shown), default=1.0)
    return charts.lanes(names, pieces, 0.0, last)


def _spans(r: RequestFacts) -> list[tuple[str, float, float]]:
    moments = (r.arrival_ms, r.scheduled_ms, r.first_ms, r.finish_ms)
    return list(zip(_PARTS, moments[:-1], moments[1:], strict=True))


def _engines(serving: ServingFacts) -> Iterator[Markup]:
    """Charts of the cache, batch and queue of each engine over time."""
    drawn = [e for e in serving.engines if e.over_time][:_MOST_ENGINES]
    if not drawn:
        return
    more = f" The first {_MOST_ENGINES} engines." if len(serving.engines) > _MOST_ENGINES else ""
    level = max(e.cache_capacity for e in drawn) or None
    for title, column, unit, most in (
        ("Tokens in the cache", 1, "tokens", level),
        ("Requests in a batch", 2, "requests", None),
        ("Requests in the queue", 3, "requests", None),
    ):
        caption = f"When steps end.{' Dotted: what the cache can hold.' if most else ''}{more}"
        chart = line_chart("", [_line(e, column) for e in drawn], "s", unit, level=most)
        yield charts.figure(f"{title} over time", caption, chart)


def _line(e: EngineFacts, column: int) -> Line:
    return Line(f"engine {e.engine}", [(row[0] / 1e3, float(row[column])) for row in e.over_time])


def serving_change_parts(change: ServingChange) -> Iterator[Markup]:
    """The section on why the mean request takes longer or shorter than in the other run."""
    yield tag(
        "p",
        f"The mean request takes {change.b_ms:,.1f} ms instead of {change.a_ms:,.1f}: {change.sentence}.",
    )
    rows = [
        (
            p.what,
            abs(p.delta_ms),
            f"{p.delta_ms:+,.2f} ms",
            charts.color("slower" if p.delta_ms > 0 else "faster"),
        )
        for p in change.explained[:14]
    ]
    if rows:
        caption = (
            "Parts of the mean request's time, orange longer here, blue shorter; they sum to it."
        )
        yield charts.figure("What explains the requests' difference", caption, charts.bars(rows))
    yield table_markup(change.tables()[1])


_BARS = 32
"""Bars of a chart: with 20 units each they are as high as a screen."""
_PIECES = 4000
"""Pieces of the critical path that are drawn: four per unit of width; more only enlarge the page."""
_NUMBERED = re.compile(r"\.\d+(?=\.|$)")


def html_report(
    analysis: Analysis, facts: dict[str, str], comparison: Comparison | None = None
) -> str:
    """The report as an HTML page. `facts` are labels and texts that say where the run comes from."""
    title = analysis.name or "run"
    return page(
        title,
        facts,
        *_summary(analysis),
        *([comparison_section(comparison)] if comparison else []),
        *(
            tag("section", tag("h2", heading), *parts)
            for heading, make in list(SECTIONS.values())[1:]
            if (parts := list(make(analysis)))
        ),
        footer="Made by chakrakit (chakra report). Times are exact to the nanosecond of the trace; "
        "every breakdown and the critical path sum to the span.",
    )


def _summary(a: Analysis) -> Iterator[Markup]:
    if a.warning:
        yield tag("p", f"Warning: {a.warning}.", class_="warning")
    yield tag("div", *map(answer_card, answers(a)), class_="answers")
    for note in a.notes:
        yield tag("p", f"Note: {note}.", class_="facts")


def _time(a: Analysis) -> Iterator[Markup]:
    alike = _alike(a)
    drawn = alike[:_BARS]
    rows = [
        (named_ranks(a, ranks), list(first.breakdown.parts().items())) for ranks, first in drawn
    ]
    used = [k for k, _ in rows[0][1] if any(dict(p)[k] for _, p in rows)] if rows else []
    undrawn = sum(len(ranks) for ranks, _ in alike[_BARS:])
    more = f" The other {counted(undrawn, 'rank')} are left out: see all tables." if undrawn else ""
    grouped = " Ranks with the same times share a bar." if len(alike) < len(a.ranks) else ""
    caption = (
        "Each bar is the whole span; communication only where no computation covers it."
        f"{grouped}{more}"
    )
    gotos = [f"rank={ranks[0]}" for ranks, _ in drawn]
    bars = charts.stacked(rows, a.span_ns, gotos=gotos)
    chart = charts.figure("Time by rank", caption, bars)
    yield join(charts.legend(used), chart)
    causes = list(dict.fromkeys(c for r in a.ranks for c in r.breakdown.idle))
    idle: list[tuple[Cell, ...]] = [
        (named_ranks(a, ranks), *(ms(first.breakdown.idle.get(c, 0)) for c in causes))
        for ranks, first in alike
    ]
    if causes:
        yield table_markup(
            Table.of("Why devices were idle, ms", ("ranks", *causes), idle).first(_BARS)
        )


def _alike(a: Analysis) -> list[tuple[list[int], RankTime]]:
    """Ranks with equal breakdowns, in order of the first rank of each, with its times."""
    by_breakdown: dict[bytes, tuple[list[int], RankTime]] = {}
    for r in a.ranks:
        by_breakdown.setdefault(msgspec.json.encode(r.breakdown), ([], r))[0].append(r.rank)
    return list(by_breakdown.values())


def _path(a: Analysis) -> Iterator[Markup]:
    path = a.critical_path
    if not path.segments:
        return
    total = path.length_ns
    kinds = [(w, float(n)) for w, n in path.attribution.items()]
    yield join(
        charts.legend([w for w, _ in kinds]),
        charts.figure(
            "Critical path",
            "What the end of the run waited for, moment by moment. "
            f"{counted(path.rank_changes, 'change')} of rank, "
            f"{time_text(path.unexplained_ns)} unexplained.",
            charts.stacked([("path", kinds)], total),
        ),
        charts.figure(
            "Critical path by rank and time",
            "Ctrl and scroll to zoom, drag to move, double click for all.",
            _path_lanes(a),
        ),
    )
    longest = _families(((activity, name), ns) for activity, name, ns in path.operators)
    rows = [
        (
            f"{activity}: {short(name, 44)}",
            float(ns),
            _with_share(ns, total),
            charts.color(activity),
        )
        for (activity, name), ns in longest[:14]
    ]
    caption = "By operator; those of all layers and buckets (.*) together."
    gotos = [_searched(name) for (_, name), _ in longest[:14]]
    yield charts.figure("Longest on the critical path", caption, charts.bars(rows, gotos))
    gains = [
        (
            f"{g.what} {g.factor:g}× faster",
            float(max(g.saved_ns, 0)),
            _with_share(g.saved_ns, a.what_if.scheduled_ns),
            charts.color(g.what),
        )
        for g in a.what_if.gains
    ]
    yield from _advice(a)
    if gains:
        yield charts.figure(
            "What faster work would save",
            "Everything scheduled again with this class faster and all dependencies kept.",
            charts.bars(gains),
        )


def _advice(a: Analysis) -> Iterator[Markup]:
    rows = [
        (x.what, float(x.saves_ns), saving_text(x), charts.color("faster")) for x in a.advice[:14]
    ]
    if rows:
        caption = (
            "Changes that were tried by simulating them, with where 90 of 100 cases should lie."
        )
        yield charts.figure("What would help", caption, charts.bars(rows))
        yield table_markup(advice_table(a.advice))


def _families(times: Iterable[tuple[tuple[str, str], int]]) -> list[tuple[tuple[str, str], int]]:
    """Sums times by (kind, name), longest first; `layers.0.mlp`, `layers.1.mlp`, … count as one name."""
    sums: dict[tuple[str, str], int] = {}
    for (kind, name), ns in times:
        family = (kind, _NUMBERED.sub(".*", name))
        sums[family] = sums.get(family, 0) + ns
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _searched(family: str) -> str:
    """What leads to the rows of a family of names: a search for all of them."""
    pattern = re.escape(family).replace(r"\.\*", r"\.\d+")
    return urlencode({"q": f"name~^{pattern}$"})


def _with_share(part: float, whole: float) -> str:
    return f"{time_text(part)} ({100 * part / max(whole, 1):.1f} %)"


def _path_lanes(a: Analysis) -> Markup:
    """The critical path on one lane per rank; of too many pieces, short neighbours become one."""
    path = a.critical_path
    ranks = sorted({s.rank for s in path.segments})
    least = (path.end_ns - path.start_ns) / _PIECES if len(path.segments) > _PIECES else 0
    pieces: list[tuple[int, float, float, str, str]] = []
    lane = {r: i for i, r in enumerate(ranks)}
    for s in path.segments:
        took = time_text(s.end_ns - s.start_ns)
        title = f"{a.rank_name(s.rank)}: {s.what}, {short(s.name)}, {took}"
        last = pieces[-1] if pieces else None
        if last and last[0] == lane[s.rank] and s.end_ns - last[1] < least:
            pieces[-1] = (last[0], last[1], s.end_ns, last[3], last[4])
        else:
            pieces.append((lane[s.rank], s.start_ns, s.end_ns, charts.color(s.what), title))
    gotos = [f"rank={ranks[p[0]]}&at={int(p[1])},{int(p[2])}" for p in pieces]
    names = [a.rank_name(r) for r in ranks]
    return charts.lanes(names, pieces, path.start_ns, path.end_ns, gotos)


def _communication(a: Analysis) -> Iterator[Markup]:
    talk = a.communication
    if not talk.collectives and not talk.messages:
        return
    yield table_markup(talk.table().first(40))
    for table in network_tables(a):
        if table.rows:
            yield table_markup(table)
    rows = [
        (
            f"{size_text(b.low_bytes)} and more",
            float(b.bytes),
            f"{b.count:,} ×, {size_text(b.bytes)}",
            charts.color("communication"),
        )
        for b in talk.sizes
    ]
    yield charts.figure(
        "Message sizes", "Bytes of collectives and messages by size.", charts.bars(rows)
    )
    ranks = sorted({p.src for p in talk.pairs} | {p.dst for p in talk.pairs})
    if 2 <= len(ranks) <= 128:
        place = {r: i for i, r in enumerate(ranks)}
        cells = [
            (place[p.src], place[p.dst], float(p.bytes), f"{p.src} → {p.dst}: {size_text(p.bytes)}")
            for p in talk.pairs
        ]
        caption = (
            "Collectives as a ring in the group's order would; all-to-all and messages as they are."
        )
        yield charts.figure("Who sends to whom", caption, charts.heatmap(len(ranks), cells))
    if any(s.caused_wait_ns for s in a.stragglers):
        late = [
            (
                a.rank_name(s.rank),
                float(s.caused_wait_ns),
                f"{time_text(s.caused_wait_ns)}, last {s.times_last} ×",
                charts.color("late ranks"),
            )
            for s in a.stragglers[:20]
        ]
        caption = "Waiting each rank causes, summed over the ranks that wait."
        gotos = [f"rank={s.rank}" for s in a.stragglers[:20]]
        yield charts.figure("Who makes others wait", caption, charts.bars(late, gotos))


def _work(a: Analysis) -> Iterator[Markup]:
    total = max(a.operators.total_ns, 1)
    for title, spent in (("Operators", a.operators.operators), ("Modules", a.operators.modules)):
        kinds = {"comm": "communication"}
        most = _families(((s.kind, s.name), s.time_ns) for s in spent)
        rows = [
            (short(name), float(ns), _with_share(ns, total), charts.color(kinds.get(kind, kind)))
            for (kind, name), ns in most[:14]
        ]
        caption = "Device time over all ranks; what layers and buckets (.*) do alike together."
        gotos = [_searched(name) for (_, name), _ in most[:14]] if title == "Operators" else []
        if rows:
            yield charts.figure(title, caption, charts.bars(rows, gotos))
    points = [
        (
            p.intensity,
            p.tflops,
            float(p.time_ns),
            f"{p.name} {p.shapes[:80]}: {p.tflops:.1f} TFLOP/s, {p.gbps:.0f} GB/s, {time_text(p.time_ns)}",
        )
        for p in a.roofline.points
    ]
    highest = max(a.roofline.peaks.values(), default=a.roofline.peak_tflops)
    chart = charts.scatter(points, highest, a.roofline.peak_gbps)
    roof = f" The roof is {a.roofline.roof_text}." if a.roofline.roof_text else ""
    if chart:
        yield charts.figure(
            "Roofline", "One point per operator and shapes, as large as its time." + roof, chart
        )


def _memory(a: Analysis) -> Iterator[Markup]:
    rank = next((r for r in a.memory.ranks if r.rank == a.memory.peak_rank), None)
    if rank is None:
        return
    points = [(float(m.time_ns), float(m.bytes)) for m in rank.timeline]
    chart = charts.area(points, a.critical_path.start_ns, a.critical_path.end_ns)
    caption = f"From {rank.source}; what no node names, such as workspaces, is not in it."
    yield charts.figure(f"Memory of rank {rank.rank}", caption, chart)
    yield table_markup(a.memory.table())


def _storage(a: Analysis) -> Iterator[Markup]:
    if a.tiers:
        yield table_markup(tier_table(a.tiers))
    if a.storage:
        yield table_markup(server_table(a.storage))


def comparison_section(comparison: Comparison) -> Markup:
    """The section on what differs from another run (A), and what explains it."""
    step = comparison.step
    noise = " The difference is within the noise." if step.within_noise else ""
    rows = [
        (
            f"{c.change}: {c.what}" if c.change else c.what,
            float(abs(c.delta_ns)),
            f"{'+' if c.delta_ns > 0 else '−'}{time_text(abs(c.delta_ns))}",
            charts.color("slower" if c.delta_ns > 0 else "faster"),
        )
        for c in comparison.causes[:14]
        if abs(c.delta_ns) * 1000 >= abs(step.delta_ns)
    ]
    caption = (
        "Work, durations, gaps, overlap and waiting by kind, orange longer here, blue shorter; they sum to "
        "the difference. Those under a thousandth are left out."
    )
    return tag(
        "section",
        tag("h2", "Against the other run"),
        *(serving_change_parts(comparison.serving) if comparison.serving else ()),
        tag(
            "p",
            f"A step takes {time_text(step.b_ns)} instead of {time_text(step.a_ns)} "
            f"({100 * (step.ratio - 1):+.1f} %).{noise}",
        ),
        charts.figure("What explains the difference", caption, charts.bars(rows)) if rows else "",
        *(details(t) for t in comparison.lists() if t.rows),
    )


def _tables(a: Analysis) -> Iterator[Markup]:
    return (details(t) for t in a.tables() if t.rows)


SECTIONS: dict[str, tuple[str, Callable[[Analysis], Iterator[Markup]]]] = {
    "Summary": ("Summary", _summary),
    "Serving": ("Requests and engines", serving_parts),
    "Time": ("Where the time goes", _time),
    "Critical path": ("Critical path and what would help", _path),
    "Communication": ("Communication", _communication),
    "Storage": ("Storage", _storage),
    "Operators": ("Operators and kernels", _work),
    "Memory": ("Memory", _memory),
    "Tables": ("All tables", _tables),
}
"""The sections of a page about a run, in order: short name → heading and maker of its content."""


def markdown_report(
    analysis: Analysis, facts: dict[str, str], comparison: Comparison | None = None
) -> str:
    """The report as Markdown: the answers and all tables."""
    out = [
        f"# {_plain(analysis.name)}",
        " · ".join(_plain(f"{k} {v}".strip()) for k, v in facts.items()),
        "",
    ]
    out += [f"**Warning:** {_plain(analysis.warning)}\n"] if analysis.warning else []
    out += [
        f"- **{_plain(a.question)}** {_plain(a.figure)}: {_plain(a.sentence)}"
        for a in answers(analysis)
    ]
    out += [f"\nNote: {_plain(n)}" for n in analysis.notes]
    tables = [*analysis.tables(), *(comparison.tables() if comparison else [])]
    return "\n".join(out + _markdown_tables(tables, 40)) + "\n"


def markdown_comparison(comparison: Comparison, rows: int = 10) -> str:
    """A comparison as Markdown: broken rules first, then the step and what explains it, the rest folded."""
    verdict = [f"**Fails:** {_plain(why)}" for why in comparison.broken] or ["No rule is broken."]
    verdict += [f"**Not decided:** {_plain(why)}" for why in comparison.undecided]
    warning = [f"**Warning:** {_plain(comparison.warning)}"] if comparison.warning else []
    folded = _markdown_tables(comparison.details(), rows)
    details = [
        "",
        "<details><summary>Operators, modules and groups</summary>",
        *folded,
        "",
        "</details>",
    ]
    answers = _markdown_tables(comparison.answers(), rows)
    return "\n".join([*verdict, *warning, *answers, *(details if folded else [])]) + "\n"


def _markdown_tables(tables: Iterable[Table], rows: int) -> list[str]:
    """Lines of the tables that have rows, each cut to so many."""
    lines: list[str] = []
    for table in tables:
        if table.rows:
            lines += ["", f"## {_plain(table.title)}", "", _markdown_row(table.head)]
            lines += ["|" + "---|" * len(table.head)]
            lines += [_markdown_row([cell_text(c) for c in row]) for row in table.first(rows).rows]
    return lines


def _markdown_row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(_plain(c) for c in cells) + " |"


def _plain(text: str) -> str:
    """Text on one line, with Markdown and HTML escaped."""
    flat = " ".join(text.split())
    for mark in "\\`*_|<>[]":
        flat = flat.replace(mark, {"<": "&lt;", ">": "&gt;"}.get(mark, "\\" + mark))
    return flat
