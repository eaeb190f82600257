"""Pictures of single results: what their `plot()` shows in a notebook or saves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.insight.analysis import Analysis, analyze
from chakrakit.insight.compare import Comparison
from chakrakit.insight.rank import ms
from chakrakit.insight.time import Breakdown
from chakrakit.trace.files import replacing
from chakrakit.trace.sets import Run
from chakrakit.views.charts import Markup, charts

_BARS = 32


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
    """Draw a result: where a run's time goes, or what explains the difference of two.

    Parameters
    ----------
    result
        A Run, an Analysis, a Comparison, or an object whose `run` or `result` is one.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.plot(run).save("time.svg")

    """
    if isinstance(result, Run):
        result = analyze(result)
    if isinstance(result, Analysis):
        return _breakdown(result)
    if isinstance(result, Comparison):
        return _explanation(result)
    inner = getattr(result, "run", None)
    if callable(inner):
        inner = inner()
    if isinstance(inner, Run):
        return plot(inner)
    raise ConfigError(
        f"a {type(result).__name__} has no picture; a Run, an Analysis and a Comparison have one"
    )


def _breakdown(analysis: Analysis) -> Picture:
    rows = [(f"rank {r.rank}", _parts(r.breakdown)) for r in analysis.ranks[:_BARS]]
    title = f"{analysis.name}: {ms(analysis.span_ns):,} ms"
    return Picture(title, _standalone(charts.stacked(rows, analysis.span_ns)))


def _parts(b: Breakdown) -> list[tuple[str, float]]:
    """What fills a rank's span, in the order of the report."""
    return [
        ("compute", b.compute_ns),
        ("communication", b.exposed_comm_ns),
        ("copy", b.exposed_copy_ns),
        ("idle", b.idle_ns),
    ]


def _explanation(comparison: Comparison) -> Picture:
    rows = [
        (e.what, abs(e.delta_ns), f"{e.delta_ns / 1e6:+,.3f} ms", charts.color(e.what))
        for e in comparison.explained[:_BARS]
    ]
    title = f"step {comparison.step.delta_ns / 1e6:+,.3f} ms"
    return Picture(title, _standalone(charts.bars(rows)))


def _standalone(drawing: Markup) -> str:
    text = str(drawing)
    return text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
