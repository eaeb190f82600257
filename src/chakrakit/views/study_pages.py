"""Pages about studies: one for each, and the first page with a line for every system. Markdown and SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from chakrakit.insight import Answer
from chakrakit.insight.rank import Table
from chakrakit.published import VERDICTS, CaseResult, ClaimLine, StudyLine, StudyResult, words
from chakrakit.trace.files import replacing
from chakrakit.views.charts import Markup, tag
from chakrakit.views.forest import Dot, forest_chart
from chakrakit.views.page import answer_card, page, table_markup

FIRST, BOUNDS = "README.md", "bounds.md"
_NONE = "–"
_BREAK = "<br>"
_UNJUDGED = {"calibrated": "– put in, not measured", "not simulable": "– cannot be simulated"}
_STRENGTHS = {
    "strong": "sign, regime and size come out of a mechanism",
    "direction": "sign and regime only",
    "bound": "a limit that no implementation can exceed",
    "side cost": "what is paid beside, not the headline",
}


def write_study(result: StudyResult, folder: Path) -> None:
    """A study's page and its chart."""
    _write(folder / f"{result.id}.svg", study_chart(result))
    _write(folder / f"{result.id}.md", study_page(result))


def write_studies(lines: Sequence[StudyLine], results: Iterable[StudyResult], folder: Path) -> None:
    """All pages."""
    results = list(results)
    for result in results:
        write_study(result, folder)
    _write(folder / BOUNDS, bounds_page(results))
    _write(folder / FIRST, first_page(lines))


_INTRODUCTION = """\
# Published systems, tried in simulation

Each system was reported to be better than something. Here its idea is simulated against comparators that were
tuned as carefully, with predictions that were written first. The mechanism is tried, not the system: none of
the original code was run.
"""
_READING = """\
The third column answers the second, line by line: from the least to the most over all cases, against the best
tuned comparator of each case unless another is named. ✓ says that the claimed figure lies inside what came out,
✗ that it does not, – that a simulation cannot judge it.

## What a verdict means

| verdict | meaning |
| --- | --- |
| holds | every claimed figure lies inside what was swept, and the gain is gone where it should be |
| holds in part | better, but a figure is reached only against a comparator that was not tuned or has collapsed, or not at all, or a gain is left where none should be, or no figure was published |
| does not hold | nowhere better than the best tuned comparator |
| not decidable | something that the claim rests on is not modelled, or a measurement raised |
| within the bound, partly, beyond it | only a limit was computed: every claimed figure, some, or none of them stays below it |
| side cost as claimed, in part, not as claimed | only what is paid beside the headline was measured, as time or bytes |

How much a study can say stands in the column *can say*: *strong* (sign, regime and size come out of a
mechanism), *direction* (sign and regime only), *bound* and *side cost*, which never hold or fail to hold
([bounds and side costs](bounds.md) together).

Verdicts are computed from recorded tables, which come with the package. Every side chooses its settings on
seeds on which it is not judged. A seed changes what is random in the work, and the constants of the machine by
5 % or so, for all sides alike.

```sh
chakra studies --family serving   # this list, or a part of it
chakra study A71 --quick          # one of them, in seconds; without --quick as recorded
```

## Systems that cannot be studied
"""  # noqa: E501
_CASES = """\
`{figure}`: {better} is better. The gain is over the best tuned comparator of each case, with its 95 %
bootstrap interval; *gone* marks cases in which there should be none."""


def first_page(lines: Sequence[StudyLine]) -> str:
    """One line for every system, then how to read it, and the systems that cannot be studied."""
    studied = [line for line in lines if line.verdict != "no study"]
    others = [line for line in lines if line.verdict == "no study"]
    head = (
        "system",
        "what was claimed",
        "what came out here",
        "verdict",
        "can say",
        "held against",
    )
    rows = [
        (
            f"[{s.system}]({s.id}.md)",
            _BREAK.join(c.text for c in s.claims),
            _BREAK.join(_answer(c) for c in s.claims),
            f"**{s.verdict}**",
            s.strength,
            s.comparator,
        )
        for s in studied
    ]
    verdicts = [s.verdict for s in studied]
    words_of = dict.fromkeys(v for said in VERDICTS.values() for v in said[::-1])
    counts = ", ".join(f"{v} {verdicts.count(v)}" for v in words_of if v in verdicts)
    reasons = [(s.system, s.claim, s.why[0]) for s in others]
    parts = [
        _INTRODUCTION,
        f"{len(studied)} studies: {counts}.\n",
        _table(head, rows) + "\n",
        _READING,
        _table(("system", "what was claimed", "why not"), reasons) + "\n",
    ]
    return "\n".join(parts)


_BOUNDS = """\
# Bounds and side costs

Some claims rest on code that is not here: a kernel, a data structure, an accuracy. For these only a limit is
computed (bytes and operations are counted, and a device moves and computes them as fast as it can), or only
what the idea costs beside its headline. Neither says that a system holds what it promises. A claim beyond a
bound cannot be, as costs are counted here; a claim within it may.
"""


def bounds_page(results: Sequence[StudyResult]) -> str:
    """All studies that give no more than a bound or a side cost, side by side."""
    head = ("system", "claimed", "limit or cost here", "the most at", "verdict", "what limits it")
    parts = [_BOUNDS]
    for strength, title in (("bound", "Bounds"), ("side cost", "Side costs")):
        rows = [_bound(result) for result in results if result.strength == strength]
        parts += [f"## {title}\n", _table(head, rows) + "\n"] if rows else []
    return "\n".join(parts)


def _bound(result: StudyResult) -> tuple[str, ...]:
    top = max((c for c in result.cases if not c.gone), key=lambda c: c.gain, default=None)
    return (
        f"[{result.system}]({result.id}.md)",
        _BREAK.join(c.text for c in result.claims),
        f"{_span(*result.gains)} times as good; where it should be gone {_span(*result.gone_gains)}",
        words(top.case) if top else _NONE,
        f"**{result.verdict}**",
        _BREAK.join(result.rests_on),
    )


def study_page(result: StudyResult) -> str:
    """Claims, verdict, chart, table, predictions, what was taken away, and limits."""
    parts = [
        f"# {result.system} ({result.id})",
        f"**{result.verdict}**: {'; '.join(result.why)}.",
        f"What this study can say: {_STRENGTHS[result.strength]}. Family: {result.family}. Recorded at "
        f"`{result.commit or 'no commit'}` with {result.seeds} judged seeds.",
        f"What decides: {result.decides}" if result.decides else "",
        f"Changed after results had been seen: {result.amended}" if result.amended else "",
        _table(*_claims(result)),
        f"![Gain by case]({result.id}.svg)",
        _CASES.format(figure=result.figure, better={"min": "less", "max": "more"}[result.better]),
        _table(*_cases(result)),
        "## Predictions, written before the first run",
        _table(*_predictions(result)),
        "## Without the key line",
        _table(*_ablations(result)),
        "## What it rests on, and what it cannot say",
        "\n".join(f"- {effect}: {_module(path)}" for effect, path in result.rests_on.items()),
        result.cannot_say,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


Rows = tuple[Sequence[str], list[Sequence[str]]]
"""A table: its head, and its rows."""


def _claims(result: StudyResult) -> Rows:
    return ("claim", "kind", "claimed", "measured", "reached"), [
        (c.text, c.kind, _span(c.low, c.high), _span(c.least, c.most), _yes(c.reached))
        for c in result.claims
    ]


def _predictions(result: StudyResult) -> Rows:
    return ("prediction", "outcome", "by", "p (Holm)"), [
        (p.text, p.outcome, _number(p.margin), _number(p.p)) for p in result.predictions
    ]


def _ablations(result: StudyResult) -> Rows:
    return ("the idea without", "verdict", "gain", "the most differs by over 2 %"), [
        (a.without, a.verdict, _span(a.least, a.most), _yes(a.changed)) for a in result.ablations
    ]


def _module(path: str) -> str:
    return f"`{path}`" if path else "not modelled"


def study_chart(result: StudyResult) -> str:
    """Gains by case, and the range that the first claim about a gain names."""
    dots = [Dot(words(c.case), c.gain, c.low, c.high, c.gone) for c in result.cases]
    claimed = [c for c in result.claims if c.figure.startswith("gain")]
    band = (claimed[0].low, claimed[0].high) if claimed else (1.0, 1.0)
    title = f"{result.system}: gain over the best tuned comparator"
    return forest_chart(title, dots, "times as good; shaded: claimed", band)


def study_html(result: StudyResult) -> str:
    """The page of a study as HTML that works offline: the verdict, the gains by case, and what led to it."""
    facts = {
        "": f"{result.id}, {result.family}",
        "recorded at": result.commit or "no commit",
        "judged seeds:": str(result.seeds),
    }
    verdict = Answer(
        question="What became of the claim?", figure=result.verdict, sentence="; ".join(result.why)
    )
    strength = Answer(
        question="What can this study say?",
        figure=result.strength,
        sentence=_STRENGTHS[result.strength],
    )
    notes = [
        f"What decides: {result.decides}" if result.decides else "",
        f"Changed after results had been seen: {result.amended}" if result.amended else "",
        f"What it cannot say: {result.cannot_say}" if result.cannot_say else "",
    ]
    parts = {
        "Claims": _claims(result),
        "Cases": _cases(result),
        "Predictions, written before the first run": _predictions(result),
        "Without the key line": _ablations(result),
    }
    return page(
        result.system,
        facts,
        tag("div", answer_card(verdict), answer_card(strength), class_="answers"),
        *(tag("p", note) for note in notes if note),
        tag(
            "section",
            tag("h2", "Gain by case"),
            tag("div", Markup(study_chart(result)), class_="sheet"),
        ),
        *(
            tag(
                "section",
                tag("h2", title),
                table_markup(Table.of("", tuple(head), rows), titled=False),
            )
            for title, (head, rows) in parts.items()
            if rows
        ),
        footer="Made by chakrakit (chakra study). The mechanism was simulated, not the system's own code.",
    )


def _cases(result: StudyResult) -> Rows:
    fields = list(dict.fromkeys(name for c in result.cases for name in c.case))
    sides = list(dict.fromkeys(side for c in result.cases for side in c.figures))
    others = list(dict.fromkeys(name for c in result.cases for name in c.claimed))
    shown = list(dict.fromkeys(name for c in result.cases for name in c.shown))
    named = [name.replace("_", " ") for name in (*fields, *others)]
    more = (*named[len(fields) :], *shown)
    head = (*named[: len(fields)], *sides, "gain", *more, "the idea chose", "")
    return head, [_case(c, fields, sides, others, shown) for c in result.cases]


def _case(
    case: CaseResult,
    fields: Sequence[str],
    sides: Sequence[str],
    others: Sequence[str],
    shown: Sequence[str],
) -> list[str]:
    idea = sides[0]
    marks = [*(["gone"] if case.gone else []), *(f"{s} collapsed" for s in case.collapsed)]
    figures = [_number(case.figures.get(side)) for side in sides]
    gain = f"{_number(case.gain)} ({_span(case.low, case.high)})"
    chosen = words(case.chosen.get(idea, {}))
    return [
        *(str(case.case.get(f, _NONE)) for f in fields),
        *figures,
        gain,
        *(_number(case.claimed.get(name)) for name in others),
        *(_with_interval(case.shown.get(name)) for name in shown),
        chosen,
        ", ".join(marks),
    ]


def _with_interval(figure: tuple[float, float, float] | None) -> str:
    if figure is None:
        return _NONE
    mean, low, high = figure
    return f"{_number(mean)} ({_span(low, high)})"


def _answer(claim: ClaimLine) -> str:
    """What came out of a claimed figure."""
    if claim.reached is None:
        return _UNJUDGED[claim.kind]
    mark = "✓" if claim.reached else "✗"
    ours = " (our figure; none was published)" if claim.kind == "ours" else ""
    if not claim.measured:
        return f"nothing {mark}{ours}"
    if not claim.figure.startswith("gain"):
        return f"{claim.figure.replace('_', ' ')} {_ends(claim.measured)} {mark}{ours}"
    over = claim.figure.removeprefix("gain")
    return f"{_ends(claim.measured)} times as good{over} {mark}{ours}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _span(least: float | None, most: float | None) -> str:
    low, high = _number(least), _number(most)
    return low if low == high else f"{low} to {high}"


def _ends(span: Sequence[float | None]) -> str:
    """A recorded range; what has no end is recorded as None."""
    return _span(*(math.inf if v is None else v for v in span))


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return _NONE
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _yes(value: bool | None) -> str:
    return _NONE if value is None else "yes" if value else "no"


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)
