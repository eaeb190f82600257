"""What if: how much shorter a run would be if a class of nodes were k times as fast; and slack."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.insight.communication import AllCalls
from chakrakit.insight.critical_path.model import Model, RankGraphs, graph_of, per_rank
from chakrakit.insight.rank import KIND_NAMES, RankView, RowKind, Table, ms, percent, rank_views
from chakrakit.patterns import begins_with
from chakrakit.results import Result
from chakrakit.trace.sets import Run

CLASSES = {name: kind for kind, name in KIND_NAMES.items() if kind != RowKind.NONE}
CRITICAL_NS = 1_000
"""Rows with at most this slack count as critical: recorders round times to a microsecond."""


class Gain(Result, msgspec.Struct):
    """What the run would save if a class of nodes (`what`) were `factor` times as fast."""

    what: str
    factor: float
    nodes: int
    saved_ns: int
    makespan_ns: int


class KindSlack(Result, msgspec.Struct):
    """How many rows of one kind are critical, and their median slack."""

    kind: str
    rows: int
    critical: int
    median_ns: int


class WhatIf(Result, msgspec.Struct):
    """Gains, largest first, against the run scheduled again unchanged.

    `scheduled_ns` differs from the measured span by what no constraint explains.
    """

    measured_ns: int
    scheduled_ns: int
    gains: list[Gain]
    slack: list[KindSlack]
    note: str = ""

    def table(self) -> Table:
        """One row per class."""
        head = ("if … were", "× faster", "nodes", "saves ms", "%")
        rows = [
            (g.what, g.factor, g.nodes, ms(g.saved_ns), percent(g.saved_ns, self.scheduled_ns))
            for g in self.gains
        ]
        return Table.of("what faster work would save", head, rows)

    def slack_table(self) -> Table:
        """One row per kind: how many nodes are critical, and the median slack."""
        rows = [
            (s.kind, s.rows, s.critical, percent(s.critical, s.rows), ms(s.median_ns))
            for s in self.slack
        ]
        return Table.of("slack", ("kind", "nodes", "without slack", "%", "median slack ms"), rows)


@dataclass(eq=False)
class RankNames:
    """What the rows of one rank can be selected by: kind, name, operator's name and group."""

    rank: int
    kind: I8
    name: I32
    operator: I32
    texts: list[str]
    group: I32
    groups: list[str]


def names_of(view: RankView) -> RankNames:
    """What the rows of one rank can be selected by."""
    _, called, texts = view.called(np.arange(len(view)))
    group, groups = view.texts("pg_name")
    operator = called.astype(np.int32)
    return RankNames(view.rank, view.kind, view.names[0], operator, texts, group, groups)


def kinds_only(model: Model) -> RankNames:
    """All rows of a model, selectable by their kind only."""
    none = np.zeros(0, np.int32)
    return RankNames(-1, model.kind, none, none, [], none, [])


def kinds_of(model: Model) -> list[str]:
    """The kinds of work that a model has rows of."""
    present = {int(k) for k in np.unique(model.kind)}
    return [selector for selector, kind in CLASSES.items() if kind in present]


def select(names: RankNames, selector: str) -> Mask:
    """The rows that a selector means: one of CLASSES, `group:NAME` or a pattern.

    A pattern is a regular expression for the beginning of the name of a row that is not the host's, or of its
    operator's name.
    """
    if selector in CLASSES:
        return np.asarray(names.kind == CLASSES[selector])
    if selector.startswith("group:"):
        in_group = np.array([g == selector[6:] for g in names.groups] + [False])
        return np.asarray(in_group[names.group] & (names.kind == RowKind.COMM))
    try:
        matches = begins_with(selector)
    except ValueError as error:
        raise ConfigError(f"{selector!r} is neither a class nor a pattern: {error}") from None
    hit = np.array(matches.each(names.texts) or [False])
    return np.asarray(
        (hit[names.name] | hit[names.operator]) & ~np.isin(names.kind, (RowKind.HOST, RowKind.NONE))
    )


def gain(model: Model, names: list[RankNames], selector: str, factor: float) -> Gain:
    """What the run saves if the selected rows are `factor` times as fast, by scheduling it again."""
    if not factor > 0:
        raise ConfigError(f"{selector} {factor} × faster: the factor should be above 0")
    selected = np.concatenate([select(n, selector) for n in names])
    if not selected.any():
        raise ConfigError(
            f"--faster {selector}: matches no node; {nearest(selector, _selectable(names))}"
        )
    factors = np.ones(model.n)
    factors[: model.rows][selected] = 1 / factor
    makespan = model.makespan_with(factors)
    return Gain(selector, factor, int(selected.sum()), model.makespan - makespan, makespan)


def _selectable(names: list[RankNames]) -> list[str]:
    """Everything that a selector can name: classes that have nodes, groups, and names of device rows."""
    kinds = {int(k) for n in names for k in np.unique(n.kind)}
    classes = [name for name, kind in CLASSES.items() if kind in kinds]
    groups = {f"group:{g}" for n in names for g in n.groups}
    return [*classes, *sorted(groups), *sorted({t for n in names for t in n.texts})]


def slack_summary(model: Model) -> list[KindSlack]:
    """The slack of a model's rows by kind."""
    slack = model.slack[: model.rows]
    out = []
    for kind in CLASSES.values():
        mine = slack[model.kind == kind]
        if len(mine):
            critical = int((mine <= CRITICAL_NS).sum())
            out.append(
                KindSlack(RowKind(kind).name.lower(), len(mine), critical, int(np.median(mine)))
            )
    return out


def what_if(run: Run, faster: list[tuple[str, float]] | None = None) -> WhatIf:
    """The gains of these classes (by default, of every kind twice as fast) and the slack of a run."""
    graphs, calls, names = RankGraphs(), AllCalls(run), []
    for view in rank_views(run):
        graphs.add(graph_of(view))
        calls.add_view(view)
        names.append(names_of(view))
    model = Model(graphs, calls.matched())
    span = run.span_ns
    return what_if_of(model, names, span[1] - span[0], faster)


def what_if_of(
    model: Model,
    names: list[RankNames],
    measured: int,
    faster: list[tuple[str, float]] | None,
    slack: bool = True,
) -> WhatIf:
    """The gains and, if wanted, the slack of a model."""
    if faster is None:
        faster = [(selector, 2.0) for selector in kinds_of(model)]
    gains = [gain(model, names, selector, factor) for selector, factor in faster]
    gains.sort(key=lambda g: -g.saved_ns)
    return WhatIf(measured, model.makespan, gains, slack_summary(model) if slack else [])


def slack(run: Run) -> dict[int, I64]:
    """Slack of every row in ns, by rank."""
    from chakrakit.insight.critical_path.model import model_of

    return slack_by_rank(model_of(run))


def slack_by_rank(model: Model) -> dict[int, I64]:
    """Slack of every row of a model, by rank."""
    by_rank = per_rank(model, model.slack[: model.rows])
    return {rank: np.asarray(values, np.int64) for rank, values in by_rank.items()}
