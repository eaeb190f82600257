"""The studies run as they stand, say what their tables say, and are fair to both sides."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from support.paths import EXAMPLES

STUDIES = EXAMPLES / "studies"
sys.path.insert(0, str(STUDIES))

import compression  # noqa: E402
import placement  # noqa: E402
import readiness  # noqa: E402
import stream_priority  # noqa: E402
import study  # noqa: E402

ALL = {name: sys.modules[name].STUDY for name in study.NAMES}


LONGER = [pytest.param(name, marks=pytest.mark.slow) for name in ("compression", "placement")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["readiness", "stream_priority", *LONGER])
def test_it_runs(name, tmp_path):
    words = [sys.executable, STUDIES / f"{name}.py", "--quick", "-o", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = study.read_rows(tmp_path / f"{name}.csv")
    assert done.stdout.strip() == ALL[name].said(rows).strip()
    assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("name", ALL)
def test_page_and_drawing_say_what_the_full_table_says(name):
    folder, page = study.PAGE.with_suffix(""), study.PAGE.read_text()
    rows = study.read_rows(folder / f"{name}.csv")
    assert study.renewed(page, name, ALL[name].said(rows)) == page
    assert (folder / f"{name}.svg").read_text() == ALL[name].draw(rows)


@pytest.mark.parametrize("name", ALL)
def test_it_predicts_before_it_reports(name):
    assert "Prediction, written before the first run:" in sys.modules[name].__doc__
    assert "Fairness." in sys.modules[name].__doc__


def test_a_mean_and_its_margin():
    mean, margin = study.interval([1.0, 2.0, 3.0] * 40)
    assert mean == 2.0
    assert margin == pytest.approx(1.96 * np.std([1, 2, 3]) / 120**0.5, rel=0.1)


# --- readiness --------------------------------------------------------------------------------------


CASE = readiness.Case(stages=4, batches=8, limit=4, transfer=0.0, spread=0.3)


def settings():
    plans = readiness.plans(CASE)
    fixed = [readiness.replace(plan, window=0) for plan in plans]
    return fixed + [readiness.replace(plan, window=1) for plan in plans] + plans + readiness.rules()


def test_1f1b_takes_as_long_as_the_formula_says():
    calm = readiness.replace(CASE, spread=0.0)
    usual = readiness.replace(readiness.plans(calm)[0], window=0)
    expected = (calm.batches + calm.stages - 1) * 3  # ms: a forward and a backward of two
    assert readiness.step_ms(calm, usual, 0) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "source", ["encoder", *(pytest.param(s, marks=pytest.mark.slow) for s in ("cell", "batch"))]
)
def test_no_setting_exceeds_the_memory_or_skips_a_cell(source):
    case = readiness.replace(CASE, source=source)
    for setting in settings():
        traces, machine, options = readiness.job(case, setting, readiness.work(case, 3))
        run = readiness.simulate(traces, machine, options=options).run("summary")
        for stage, trace in run:
            names = trace.nodes.column("name").to_pylist()
            last = readiness.SPLITS[setting.split][-1]
            times = dict(
                zip(names, zip(run.start(stage), run.end(stage), strict=True), strict=True)
            )
            spans = [(times[f"F{m}"][0], times[f"{last}{m}"][1]) for m in range(case.batches)]
            for at, _ in spans:
                assert sum(a <= at < b for a, b in spans) <= case.limit
            cells = sorted(times[n] for n in names if n[0] in "FBIW" and n[1:].isdigit())
            assert len(cells) == case.batches * len(readiness.SPLITS[setting.split])
            assert all(a[1] <= b[0] for a, b in pairwise(cells))


def test_a_window_of_nothing_is_the_fixed_order():
    """As a policy that waits and as edges, by two ways through the simulator."""
    work = readiness.work(CASE, 5)
    for plan in readiness.plans(CASE):
        edges = readiness.job(CASE, readiness.replace(plan, window=0), work)
        traces, machine, _ = readiness.job(CASE, plan, work)
        policy = readiness.SimulationOptions(
            dispatch=readiness.ReadyFirst(readiness.replace(plan, window=0))
        )
        waiting = readiness.run(traces, machine, policy)
        assert waiting.makespan_ps == readiness.run(*edges).makespan_ps, plan.name


def test_sides_are_judged_on_seeds_they_were_not_tuned_on():
    assert not set(readiness.TUNING) & set(readiness.JUDGING)


# --- stream priority --------------------------------------------------------------------------------


def test_nothing_beats_the_bound_and_more_choice_is_never_worse():
    case = stream_priority.Case("beside", 0.5, 1, 4)
    best = {}
    for side, found in stream_priority.settings(case).items():
        best[side] = min(stream_priority.total_ms(case, s) for s in found[::3])
        assert best[side] > stream_priority.bound_ms(case) - 1e-6, side
    assert best["both"] <= best["priority"]


def test_rows_of_the_full_table_come_out_again():
    rows = study.read_rows(study.PAGE.with_suffix("") / "stream_priority.csv")
    for r in rows[::47]:
        case = stream_priority.Case(*(r[k] for k in stream_priority.KEYS))
        names = ("side", "share", "pieces", "occupancy", "priority", "first")
        found = stream_priority.total_ms(case, stream_priority.Setting(*(r[n] for n in names)))
        assert found == pytest.approx(r["total_ms"], abs=1e-4)


# --- placement --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(2, 4), (4, 4), (3, 6)])
def test_ways_through_a_grid_visit_every_device_once(dims):
    found = dict(placement.tiled(dims))
    assert len(set(found.values())) == len(found) > 4
    for path in found.values():
        assert sorted(path) == list(range(dims[0] * dims[1]))


def test_some_ways_go_from_neighbour_to_neighbour_and_close_a_ring():
    def apart(a, b):
        return abs(a % 4 - b % 4) + abs(a // 4 - b // 4)

    rings = [
        p
        for p in dict(placement.tiled((4, 2))).values()
        if all(apart(a, b) == 1 for a, b in pairwise([*p, p[0]]))
    ]
    assert rings


# --- compression ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["flat", "nested", "summable"])
def test_a_codec_that_does_nothing_gains_nothing(scheme):
    useless, link, size = compression.Codec(1, 1e6), 100, 16_000_000
    plain = compression.best(
        size, link, None, "plain", compression.settings(compression.PLAIN, (1, 4))
    )
    coded = compression.best(size, link, useless, "", compression.settings([scheme], (1, 4)))
    assert coded["time_us"] > 0.99 * plain["time_us"]


def test_schemes_code_all_that_crosses_the_wire():
    """Bytes of a rank's codecs: its input, what it adds up, its part of the result, and the result."""
    size, n, width = 32_000_000, compression.RANKS, compression.WIDTH
    expected = {
        "flat": size * (3 + 1 / n),
        "nested": size / width * (3 + width / n),
        "summable": 2 * size,
    }
    for scheme, bytes_ in expected.items():
        codec = compression.Codec(2, 1)  # a nanosecond a byte
        traces = compression.message(size, compression.Setting(scheme), codec)
        trace = traces.trace(0)
        names = trace.nodes.column("name").to_pylist()
        spent = sum(t for n, t in zip(names, trace.duration_ns, strict=True) if "code" in n)
        assert spent == pytest.approx(bytes_, rel=1e-3), scheme
