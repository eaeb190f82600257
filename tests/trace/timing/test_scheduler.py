"""The scheduler agrees with its formulas, event by event, and explains every wait."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from chakrakit.errors import DeadlockError, TraceError
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges
from chakrakit.trace.timing import Reason, Schedule, schedule

START, END = 0, 1


class StuckError(Exception):
    """The oracle's word for a deadlock."""


class Oracle:
    """start(v) and end(v) by recursion from the formulas; an event that needs itself is StuckError.

    Each event lists its constraints as (time, rank, row, edge, reason); the latest binds, and of
    equal ones the lowest rank: own duration, edges by number, resource or queue, release.
    """

    def __init__(self, n: int, edges: Edges, durations: Any, **options: Any) -> None:
        self.n, self.durations, self.options = n, durations, options
        self.edges = list(
            zip(
                edges.src.tolist(),
                edges.dst.tolist(),
                edges.form.tolist(),
                edges.lag.tolist(),
                strict=True,
            )
        )
        self.lanes = self.sorted_lanes()
        self.known: dict[tuple[int, int], tuple[int, int, int, Reason]] = {}
        self.open: set[tuple[int, int]] = set()

    def option(self, name: str, v: int, default: int) -> int:
        values = self.options.get(name)
        return default if values is None else int(values[v])

    def sorted_lanes(self) -> list[list[int]]:
        lanes: dict[int, list[int]] = {}
        for v in sorted(range(self.n), key=lambda v: (self.option("order", v, v), v)):
            lanes.setdefault(self.option("resource", v, -1), []).append(v)
        return [rows for resource, rows in lanes.items() if resource != -1]

    def at(self, event: int, v: int) -> int:
        return self.solve(event, v)[0]

    def solve(self, event: int, v: int) -> tuple[int, int, int, Reason]:
        if (event, v) in self.open:
            raise StuckError
        if (event, v) not in self.known:
            self.open.add((event, v))
            bounds = self.start_bounds(v) if event == START else self.end_bounds(v)
            time, _, row, edge, reason = max(bounds, key=lambda b: (b[0], tuple(-r for r in b[1])))
            self.known[event, v] = time, row, edge, reason
            self.open.remove((event, v))
        return self.known[event, v]

    def start_bounds(self, v: int) -> list[Any]:
        bounds: list[Any] = [(self.option("release", v, 0), (3, 0), -1, -1, Reason.NONE)]
        for lane in self.lanes:
            if v in lane[1:]:
                u = lane[lane.index(v) - 1]
                bounds.append((self.at(END, u), (2, 0), u, -1, Reason.RESOURCE))
        for e, (u, w, form, lag) in enumerate(self.edges):
            if w == v and form != EdgeForm.FINISH_FINISH:
                event = START if form == EdgeForm.START_START else END
                bounds.append((self.at(event, u) + lag, (1, e), u, e, Reason.DEPENDENCY))
        return bounds

    def end_bounds(self, v: int) -> list[Any]:
        own = self.at(START, v) + int(self.durations[v])
        bounds: list[Any] = [(own, (0, 0), -1, -1, Reason.OWN)]
        for e, (u, w, form, lag) in enumerate(self.edges):
            if w == v and form == EdgeForm.FINISH_FINISH:
                bounds.append((self.at(END, u) + lag, (1, e), u, e, Reason.DEPENDENCY))
        for kernel in self.queued_ahead(v):
            bounds.append((self.at(START, kernel), (2, kernel), kernel, -1, Reason.QUEUE))
        return bounds

    def queued_ahead(self, v: int) -> list[int]:
        depth, ahead = self.options.get("queue_depth", 0), []
        for lane in self.lanes if depth else []:
            launched = [k for k in lane if self.option("launch_of", k, -1) != -1]
            for k, kernel in enumerate(launched):
                if self.option("launch_of", kernel, -1) == v and k >= depth:
                    ahead.append(launched[k - depth])
        return ahead

    def columns(self) -> list[list[int]]:
        starts = [self.solve(START, v) for v in range(self.n)]
        ends = [self.solve(END, v) for v in range(self.n)]
        return [[int(event[i]) for event in events] for events in (starts, ends) for i in range(4)]


def columns(s: Schedule) -> list[list[int]]:
    arrays = [s.start, s.binding, s.edge, s.reason, s.end, s.end_binding, s.end_edge, s.end_reason]
    return [a.tolist() for a in arrays]


def random_problem(seed: int) -> tuple[int, Edges, Any, dict[str, Any]]:
    """Small numbers, so that ties are common; mostly forward edges, so that few deadlock."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    m = int(rng.integers(0, 2 * n + 1))
    src, dst = rng.integers(0, n, (2, m))
    if rng.random() < 0.8:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
        src, dst = src[src < dst], dst[src < dst]
    kind, form = rng.integers(0, 11, len(src)), rng.integers(0, 3, len(src))
    edges = Edges.of(src, dst, kind, form, rng.integers(-3, 4, len(src)))
    options: dict[str, Any] = {}
    if rng.random() < 0.7:
        options["resource"] = rng.integers(-1, 3, n)
    if rng.random() < 0.3:
        options["order"] = np.arange(n) // 2 + rng.integers(0, 2, n)
    if rng.random() < 0.3:
        options["release"] = rng.integers(-2, 5, n)
    if rng.random() < 0.4:
        options["launch_of"] = np.minimum(rng.integers(-1, n, n), np.arange(n) - 1)
        options["queue_depth"] = int(rng.integers(0, 4))
    return n, edges, rng.integers(0, 5, n), options


def random_launches(seed: int) -> tuple[int, Edges, Any, dict[str, Any]]:
    """A host that launches quick enough to fill the queues of one or two slow streams."""
    rng = np.random.default_rng(seed)
    half = int(rng.integers(1, 7))
    host, kernel = np.arange(half), np.arange(half) + half
    launches = Edges.of(host, kernel, EdgeKind.LAUNCH, lag=rng.integers(0, 2, half))
    syncs = Edges.of(*rng.permuted([host, kernel], axis=1)[::-1, :1], kind=EdgeKind.SYNC)
    options = {
        "resource": np.concatenate([host * 0, rng.integers(1, 3, half)]),
        "launch_of": np.concatenate([host * 0 - 1, host]),
        "queue_depth": int(rng.integers(1, 4)),
    }
    durations = np.concatenate([rng.integers(0, 2, half), rng.integers(0, 9, half)])
    edges = Edges.concat([launches, syncs] if rng.random() < 0.3 else [launches])
    return 2 * half, edges, durations, options


def check_against_oracle(seed: int) -> bool:
    """Whether the problem deadlocks, once both have agreed on everything."""
    n, edges, durations, options = (random_launches if seed % 5 == 0 else random_problem)(seed)
    try:
        expected = Oracle(n, edges, durations, **options).columns()
    except StuckError:
        with pytest.raises(DeadlockError) as caught:
            schedule(n, edges, durations, **options)
        check_witness(str(caught.value), edges, options)
        return True
    assert columns(schedule(n, edges, durations, **options)) == expected, f"seed {seed}"
    return False


CLAUSE = re.compile(r"row (\d+) cannot (start|end) before row (\d+) (start|end)s \((.*?)\)")


def check_witness(message: str, edges: Edges, options: dict[str, Any]) -> None:
    """Each clause must be a constraint of the problem, and each must lead to the next."""
    clauses = CLAUSE.findall(message)
    closed = "more" not in message
    following = clauses[1:] + clauses[:1] if closed else clauses[1:]
    for (row, event, on, on_event, why), (then, then_event, *_) in zip(clauses, following):  # noqa: B905
        assert (on, on_event) == (then, then_event) or (on, on_event, then_event) == (
            then,
            "end",
            "start",
        )
        check_clause(int(row), event, int(on), on_event, why, edges, options)


def check_clause(
    row: int, event: str, on: int, on_event: str, why: str, edges: Edges, options: dict[str, Any]
) -> None:
    if edge := re.fullmatch(r"(\w+) edge (\d+)", why):
        e = int(edge[2])
        forms = {("start", "end"): 0, ("start", "start"): 1, ("end", "end"): 2}
        assert (edges.src[e], edges.dst[e], edges.form[e]) == (on, row, forms[event, on_event])
        assert EdgeKind(edges.kind[e]).name.lower() == edge[1]
    elif resource := re.fullmatch(r"order on resource (\d+)", why):
        assert (event, on_event) == ("start", "end")
        assert options["resource"][row] == options["resource"][on] == int(resource[1])
    else:
        assert (event, on_event, why) == ("end", "start", "launch queue full")
        assert row in options["launch_of"]


@pytest.mark.parametrize("block", range(10))
def test_ten_thousand_random_problems_match_the_formulas(block: int) -> None:
    deadlocks = sum(
        check_against_oracle(seed) for seed in range(block * 1_000, block * 1_000 + 1_000)
    )
    assert 50 < deadlocks < 500  # both kinds are well represented


def fs(src: list[int], dst: list[int], **more: Any) -> Edges:
    return Edges.of(src, dst, **more)


def test_a_row_starts_when_its_last_dependency_ends() -> None:
    s = schedule(3, fs([0, 1], [2, 2], lag=[0, 1]), [5, 5, 1])
    assert (s.start.tolist(), s.end.tolist()) == ([0, 0, 6], [5, 5, 7])
    assert (s.binding.tolist(), s.edge.tolist()) == ([-1, -1, 1], [-1, -1, 1])
    assert s.reason.tolist() == [Reason.NONE, Reason.NONE, Reason.DEPENDENCY]
    assert s.makespan == 7


def test_a_caller_spans_its_callees() -> None:
    """Parent → child start→start and child → parent finish→finish is no cycle of events."""
    edges = Edges.of([0, 1], [1, 0], form=[EdgeForm.START_START, EdgeForm.FINISH_FINISH])
    s = schedule(2, edges, [1, 10])
    assert (s.start.tolist(), s.end.tolist()) == ([0, 0], [10, 10])
    assert s.end_reason.tolist() == [Reason.DEPENDENCY, Reason.OWN]
    assert (s.end_binding.tolist(), s.end_edge.tolist()) == ([1, -1], [1, -1])


def test_a_resource_runs_its_rows_one_at_a_time_in_the_given_order() -> None:
    s = schedule(3, Edges.empty(), [5, 5, 5], resource=[0, 0, -1], order=[2, 1, 0])
    assert s.start.tolist() == [5, 0, 0]
    assert s.binding.tolist() == [1, -1, -1]
    assert s.reason.tolist() == [Reason.RESOURCE, Reason.NONE, Reason.NONE]


def test_rows_of_equal_order_run_by_row() -> None:
    assert schedule(3, Edges.empty(), [1] * 3, resource=[0] * 3, order=[7] * 3).start[2] == 2


def test_a_full_queue_keeps_the_launcher_from_ending() -> None:
    """Rows 0..2 launch 3..5, whose stream is busy: depth 1 ends launch k when k-1 starts."""
    edges = Edges.of([0, 1, 2], [3, 4, 5], EdgeKind.LAUNCH)
    args = {"resource": [0, 0, 0, 1, 1, 1], "launch_of": [-1, -1, -1, 0, 1, 2]}
    free = schedule(6, edges, [1, 1, 1, 10, 10, 10], **args)
    held = schedule(6, edges, [1, 1, 1, 10, 10, 10], queue_depth=1, **args)
    assert free.end.tolist() == [1, 2, 3, 10, 20, 30]
    assert held.end.tolist() == [1, 2, 10, 10, 20, 30]
    assert held.end_reason.tolist()[:3] == [Reason.OWN, Reason.OWN, Reason.QUEUE]
    assert held.end_binding[2] == 4


@pytest.mark.parametrize(
    ("lag", "release", "reason"),
    [(0, 4, Reason.RESOURCE), (1, 5, Reason.DEPENDENCY), (1, 6, Reason.NONE)],
)
def test_on_equal_times_edges_win_over_resource_over_release(
    lag: int, release: int, reason: Reason
) -> None:
    s = schedule(3, fs([0], [2], lag=lag), [4, 5, 1], resource=[-1, 0, 0], release=[0, 0, release])
    assert Reason(s.reason[2]) is reason


def test_of_equal_edges_the_first_binds() -> None:
    s = schedule(3, fs([1, 0], [2, 2]), [3, 3, 0])
    assert (s.binding[2], s.edge[2]) == (1, 0)


def test_a_negative_lag_is_a_lead_but_never_before_release() -> None:
    s = schedule(3, fs([0, 0], [1, 2], lag=[-2, -9]), [5, 1, 1])
    assert s.start.tolist() == [0, 3, 0]
    assert s.reason.tolist() == [Reason.NONE, Reason.DEPENDENCY, Reason.NONE]


def test_resources_may_have_any_numbers() -> None:
    far = 2**40
    s = schedule(4, Edges.empty(), [1] * 4, resource=[far, far, -1, far + 1])
    assert s.start.tolist() == [0, 1, 0, 0]


def test_times_may_count_from_an_epoch() -> None:
    s = schedule(2, fs([0], [1]), [5, 5], release=[10**18, 0])
    assert (s.end.tolist(), s.makespan) == ([10**18 + 5, 10**18 + 10], 10)


def test_no_rows_take_no_time() -> None:
    assert schedule(0, Edges.empty(), []).makespan == 0
    assert schedule(0, Edges.empty(), [], resource=[], queue_depth=3, launch_of=[]).makespan == 0


@pytest.mark.parametrize(
    ("n", "edges", "options", "message"),
    [
        (
            2,
            fs([0, 1], [1, 0], kind=[2, 4]),
            {},
            "2 rows wait for each other and can never run: row 1 cannot start before row 0 ends "
            "(tensor edge 0); row 0 cannot start before row 1 ends (stream edge 1). "
            "To go on, remove one of these edges",
        ),
        (
            2,
            fs([1], [0]),
            {"resource": [3, 3]},
            "2 rows wait for each other and can never run: row 1 cannot start before row 0 ends "
            "(order on resource 3); row 0 cannot start before row 1 ends (data edge 0). "
            "To go on, remove one of these edges or change the order on the resource",
        ),
        (
            3,
            fs([0, 0], [1, 2]),
            {"resource": [-1, 0, 0], "launch_of": [-1, 0, 0], "queue_depth": 1},
            "2 rows wait for each other and can never run: row 1 cannot start before row 0 ends "
            "(data edge 0); row 0 cannot end before row 1 starts (launch queue full). "
            "To go on, remove one of these edges or raise queue_depth",
        ),
        (
            1,
            fs([0], [0]),
            {},
            "a row waits for itself and can never run: row 0 cannot start before row 0 ends "
            "(data edge 0). To go on, remove one of these edges",
        ),
    ],
)
def test_a_circular_wait_is_told_in_full(
    n: int, edges: Edges, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeadlockError) as caught:
        schedule(n, edges, [1] * n, **options)
    assert str(caught.value) == message


@pytest.mark.slow
def test_a_circular_wait_of_a_million_rows_is_told_in_short() -> None:
    rows = np.arange(1_000_000)
    with pytest.raises(DeadlockError, match=r"^1,000,000 rows wait .*; and 999,994 more\. To go"):
        schedule(len(rows), Edges.of(rows, np.roll(rows, -1)), np.ones(len(rows), np.int64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"durations": [1, -1]}, r"durations\[1\] is -1, .* a duration cannot be negative"),
        ({"durations": [1]}, "durations has 1 entries for 2 rows"),
        ({"durations": None}, "durations has 0 dimensions"),
        ({"resource": []}, "resource has 0 entries for 2 rows"),
        ({"durations": [1.0, 2.0]}, r"durations holds float64; convert it with .astype"),
        ({"edges": fs([0], [2])}, r"edges.dst\[0\] is 2, not in 0..1; there are 2 rows"),
        ({"launch_of": [-1, 2]}, r"launch_of\[1\] is 2, not in -1..1"),
        ({"resource": [0, -2]}, r"resource\[1\] is -2"),
        ({"order": [1]}, "order has 1 entries"),
        ({"release": [1] * 3}, "release has 3 entries"),
        ({"queue_depth": -1}, "queue_depth is -1; give 1 or more, or 0 for no limit"),
        ({"n": -1}, "-1 rows"),
        ({"durations": [2**63 - 1, 1]}, "time of row 1 does not fit 64 bits .* in ns"),
        (
            {"edges": fs([0], [1], lag=-(2**63)), "release": [-1, 0], "durations": [0, 0]},
            "row 1 does not fit",
        ),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    args: dict[str, Any] = {"n": 2, "edges": fs([0], [1]), "durations": [1, 1]} | options
    with pytest.raises(TraceError, match=message):
        schedule(args.pop("n"), args.pop("edges"), args.pop("durations"), **args)


def test_edges_take_form_and_ctrl_from_their_kind() -> None:
    kinds = [EdgeKind.DATA, EdgeKind.LAUNCH, EdgeKind.SYNC, EdgeKind.THREAD]
    edges = Edges.of([0] * 4, [1] * 4, kinds)
    assert edges.form.tolist() == [0, 1, 2, 0]
    assert edges.ctrl.tolist() == [False, False, False, True]
    assert edges.lag.tolist() == [0] * 4


def test_edges_are_joined_and_chosen_in_order() -> None:
    a, b = Edges.of([0, 1], [1, 2], EdgeKind.TENSOR, lag=[3, 4]), Edges.of([5], [6])
    both = Edges.concat([a, Edges.empty(), b])
    assert both.src.tolist() == [0, 1, 5]
    assert both.without(EdgeKind.TENSOR).dst.tolist() == [6]
    assert both.without([EdgeKind.DATA]).lag.tolist() == [3, 4]
    assert both.where(both.src > 0).dst.tolist() == [2, 6]
    assert len(Edges.concat([])) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Edges.of([0], [1, 2]), r"Edges.dst has 2 entries and Edges.src 1; Edges.of"),
        (lambda: Edges.of([0], [1], kind=11), r"kind\[0\] is 11, not in 0..10"),
        (lambda: Edges.of([0], [1], form=3), r"form\[0\] is 3, not in 0..2"),
        (lambda: Edges.of([-1], [1]), r"src\[0\] is -1"),
        (lambda: Edges.of([0], [1], ctrl=[1]), r"ctrl holds int64; convert it"),
        (lambda: Edges.of([0], [1]).where([True, False]), "mask has 2 entries for 1 edges"),
        (lambda: Edges([0], [1], [0], [0], [0], [False]), "array of int32, got list"),
        (lambda: Edges(*[np.zeros(1)] * 6), "array of int32, got float64"),
    ],
)
def test_edges_that_are_not_well_formed_are_refused(make: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        make()
