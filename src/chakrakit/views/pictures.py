"""Pictures of single results, which `plot` returns: notebooks show them, and they can be saved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.insight import Analysis, Comparison, analyze
from chakrakit.insight.rank import ms
from chakrakit.results import Bars, Curve, Facts, Result
from chakrakit.trace.files import replacing
from chakrakit.trace.sets import Run
from chakrakit.views import charts
from chakrakit.views.charts import Markup
from chakrakit.views.lines import Line, line_chart

_BARS = 32
"""Bars of a picture: with 20 units each they are as high as a screen."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing as SVG; notebooks show it."""

    title: str
    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as an SVG file."""
        with replacing(Path(path)) as temporary:
            temporary.write_text(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({self.title!r}, {len(self.svg):,} characters of SVG)"


def plot(result: Any) -> Picture:
    """Draw a result as a picture.

    Parameters
    ----------
    result
        A Run or an Analysis (where the time goes), a Comparison (what explains the difference), a table of
        collectives (bandwidth over size), several jobs, a search or a campaign; or what holds one of them.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.plot(run).save("time.svg")

    """
    for inner in (result, _run_of(result), _facts_picture(result)):
        if (draw := _drawing.dispatch(type(inner))) is not _no_picture:
            return draw(inner)
    return _no_picture(result)


def _run_of(result: Any) -> object:
    """The run that a simulation or a recording holds; None for other results."""
    run = getattr(result, "run", None)
    return run() if callable(run) else run


def _facts_picture(result: Any) -> object:
    facts = result.facts() if isinstance(result, Facts) else None
    return facts.picture() if isinstance(facts, Result) else None


def _no_picture(result: object) -> Picture:
    raise ConfigError(
        f"{type(result).__name__} has no picture; runs, analyses, comparisons, tables of collectives, jobs, "
        "searches and campaigns have one"
    )


_drawing = singledispatch(_no_picture)


@_drawing.register
def _run(run: Run) -> Picture:
    return _breakdown(analyze(run))


@_drawing.register
def _breakdown(analysis: Analysis) -> Picture:
    rows = [
        (analysis.rank_name(r.rank), list(r.breakdown.parts().items()))
        for r in analysis.ranks[:_BARS]
    ]
    title = f"{analysis.name}: {ms(analysis.span_ns):,} ms"
    return Picture(title, _standalone(charts.stacked(rows, analysis.span_ns)))


@_drawing.register
def _explanation(comparison: Comparison) -> Picture:
    rows = [
        (e.what, abs(e.delta_ns), f"{e.delta_ns / 1e6:+,.3f} ms", charts.color(e.what))
        for e in comparison.explained[:_BARS]
    ]
    title = f"step {comparison.step.delta_ns / 1e6:+,.3f} ms"
    return Picture(title, _standalone(charts.bars(rows)))


@_drawing.register
def _bars(bars: Bars) -> Picture:
    fill = charts.color("compute")
    rows = [(name, value, text, fill) for name, value, text in bars.rows[:_BARS]]
    return Picture(bars.title, _standalone(charts.bars(rows)))


@_drawing.register
def _curve(curve: Curve) -> Picture:
    line = Line(curve.name, curve.points)
    chart = line_chart(curve.title, [line], curve.x, curve.y, log_x=True)
    return Picture(curve.title, str(chart))


def _standalone(drawing: Markup) -> str:
    text = str(drawing)
    return text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
