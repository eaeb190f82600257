"""Which row runs inside which, and in which step, is one fact: what the linker knew, every room shows.

The rooms are those that once derived it by themselves: views and timelines, replay, what-ifs, operators of
kernels, simulated runs; and all that a trace passes through on its way between them: files and passes.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.arrays import I32, Mask
from chakrakit.insight.rank import rank_view, tracks_of
from chakrakit.machines.device import Launchers
from chakrakit.passes.edit import SelectedCalls
from chakrakit.replayer.recording import RecordedRows
from chakrakit.trace.model import EdgeForm, EdgeKind, Trace, nearest_kept
from chakrakit.trace.sets import Run
from support.paths import DATA

RECORDINGS = (
    "pytorch/cnn_ddp_2",
    "pytorch/decode_graph",
    "pytorch/gpt2_124m_b8_s1024",
    "pytorch/gpt_fsdp_tp_4",
    "pytorch/gpt_pp_2",
    "pytorch/mlp_ddp_nccl_1",
    "pytorch/moe_tiny",
    "pytorch/reduce_overhead",
    "pytorch/resnet50_b128",
    "pytorch/two_streams",
    "hta/df_index_resolver.json.gz",
    "hta/nccl_parser_config.json.gz",
    "xla/run.xplane.pb.gz",
)
WITHOUT_TIMES = "pytorch/moe_tiny"
"""Recorded by the observer alone: what runs inside what is all that is known of when things ran."""
H200 = sorted(f"h200/{p.name}" for p in (DATA / "h200").iterdir())
ASYNCHRONOUS = {"pytorch/gpt_pp_2": 8}
"""Rows that outlive what began them, of all ranks: four sends and receives of each of two stages."""


@cache
def run_of(name: str) -> Run:
    """A recording, linked once for all tests."""
    return ck.link([DATA / name]).run


def traces_of(name: str) -> list[Trace]:
    run = run_of(name)
    return [run.trace(rank) for rank in run.ranks]


every_recording = pytest.mark.parametrize("name", RECORDINGS)


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "name", [*RECORDINGS, *(pytest.param(n, marks=pytest.mark.slow) for n in H200)]
)
def test_times_alone_say_what_the_linker_knew(name: str) -> None:
    """0 rows differ, in 31 + 12 recordings with times."""
    for trace in traces_of(name):
        assert trace.has("parent").any() == bool((trace.parent >= 0).any())
        derived = trace.with_columns({"parent": None}).parent
        if name != WITHOUT_TIMES:
            assert np.flatnonzero(derived != trace.parent).tolist() == []


def test_without_times_the_linker_alone_knows() -> None:
    [trace] = traces_of(WITHOUT_TIMES)
    assert (trace.parent >= 0).sum() == 1340
    assert not trace.start_ns.any()


def refuted(trace: Trace) -> list[int]:
    """Call edges on one thread that do not lead from a row to one inside of it."""
    edges, thread, host = trace.edges, trace.column("tid", -1), trace.on_host
    call = (edges.kind == EdgeKind.CALL) & (edges.form == EdgeForm.START_START)
    call &= host[edges.src] & host[edges.dst] & (thread[edges.src] == thread[edges.dst])
    return np.flatnonzero(call & (trace.parent[edges.dst] != edges.src)).tolist()


@every_recording
def test_calls_agree(name: str) -> None:
    for trace in traces_of(name):
        assert refuted(trace) == []


@pytest.mark.first(1)
@every_recording
def test_files_keep_parents_and_steps(name: str, tmp_path: Path) -> None:
    run = run_of(name)
    for place in ("w.et", "w.et.zst", "w.json", "w.parquet"):
        trace = run.trace(run.ranks[0])
        ck.write(trace, tmp_path / place)
        assert_same(ck.read(tmp_path / place).trace(0), trace)
    ck.write(run, tmp_path / "run")
    ck.bundle(run, tmp_path / "run.chakra")
    for place in ("run", "run.chakra"):
        again = ck.read(tmp_path / place)
        for rank in run.ranks:
            assert_same(again.trace(rank), run.trace(rank))


def assert_same(found: Trace, wanted: Trace) -> None:
    assert found.has("parent").tolist() == wanted.has("parent").tolist()
    assert found.parent.tolist() == wanted.parent.tolist()
    assert found.step.tolist() == wanted.step.tolist()


@every_recording
def test_every_room_shows_them(name: str) -> None:
    run = run_of(name)
    for rank in run.ranks:
        trace = run.trace(rank)
        parent = trace.parent
        assert rank_view(run, rank).parent.tolist() == parent.tolist()
        assert RecordedRows(rank, trace).parents == parent.tolist()
        assert launching_operators(trace) == walked_operators(trace, parent)
        for row in np.unique(parent[parent >= 0])[:: max(1, len(trace) // 20)].tolist():
            chosen = np.zeros(len(trace), np.bool_)
            chosen[row] = True
            inside = (SelectedCalls(trace, chosen).call == row) & ~launched(trace)
            assert inside.tolist() == (within(parent, row) & ~launched(trace)).tolist()


def launched(trace: Trace) -> Mask:
    """Kernels, and communication of the host that another thread does: theirs is who launched them."""
    found = np.zeros(len(trace), np.bool_)
    found[trace.edges.dst[trace.edges.kind == EdgeKind.LAUNCH]] = True
    return found


def within(parent: I32, row: int) -> Mask:
    """A row and all that runs inside of it, one step outwards at a time."""
    found = np.zeros(len(parent), np.bool_)
    found[row] = True
    at = parent
    while (at >= 0).any():
        found |= at == row
        at = np.where(at >= 0, parent[at], -1)
    return found


def launching_operators(trace: Trace) -> dict[int, int | None]:
    launchers = Launchers(trace)
    kernels = np.flatnonzero(~trace.on_host)[::50].tolist()
    return {kernel: launchers.operator(kernel) for kernel in kernels}


def walked_operators(trace: Trace, parent: I32) -> dict[int, int | None]:
    edges = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
    launch = dict(zip(edges.dst.tolist(), edges.src.tolist(), strict=True))
    names, shapes = trace.names.to_pylist(), trace.texts("inputs_shapes")
    found: dict[int, int | None] = {}
    for kernel in np.flatnonzero(~trace.on_host)[::50].tolist():
        row = launch.get(kernel, -1)
        while row >= 0:
            shaped = shapes[0][row] >= 0 and shapes[1][shapes[0][row]]
            if names[row].startswith(("aten::", "triton_")) and shaped:
                break
            row = int(parent[row])
        found[kernel] = row if row >= 0 else None
    return found


@every_recording
def test_timelines_draw_rows_inside_their_parents(name: str, tmp_path: Path) -> None:
    """In the file that a browser shows, the slice around a slice is its parent's."""
    if name == WITHOUT_TIMES:
        pytest.skip("nothing to draw")
    run, beside = run_of(name), 0
    ck.export(run, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    for rank in run.ranks:
        view = rank_view(run, rank)
        tracks = tracks_of(view)
        slices = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
        assert len(slices) == len(tracks.row)
        on_host = np.array([t.on_host for t in tracks.tracks])[tracks.track]
        beside += int(
            (np.array([t.number for t in tracks.tracks])[tracks.track] > 0)[on_host].sum()
        )
        container = around(tracks.track[on_host], tracks.start[on_host], tracks.end[on_host])
        rows = tracks.row[on_host]
        shown = np.where(container >= 0, rows[container], -1)
        drawn = np.zeros(len(view), np.bool_)
        drawn[rows] = view.duration[rows] > 0  # a parent without length is around nothing
        wanted = nearest_kept(view.parent, drawn)[rows]
        first = np.array([t.number == 0 for t in tracks.tracks])[tracks.track][on_host]
        long = view.duration[rows] > 0
        assert shown[first & long].tolist() == wanted[first & long].tolist()
    assert beside == ASYNCHRONOUS.get(name, 0)


def around(track: I32, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The innermost slice around each, read off a drawing: for each, the shortest that covers it."""
    found = np.full(len(track), -1, np.int64)
    open_slices: list[int] = []
    for i in np.lexsort((-end, start, track)).tolist():
        while open_slices and (
            track[open_slices[-1]] != track[i] or end[open_slices[-1]] <= start[i]
        ):
            open_slices.pop()
        if open_slices:
            assert end[i] <= end[open_slices[-1]], "slices of a track overlap"
            found[i] = open_slices[-1]
        open_slices.append(i)
    return found


@pytest.mark.parametrize("name", ["pytorch/gpt_pp_2", "pytorch/gpt2_124m_b8_s1024"])
def test_a_simulated_run_keeps_them(name: str, tmp_path: Path) -> None:
    """The simulator gives rows other times; in a file of its own a rank has these in its nodes."""
    run = ck.simulate(run_of(name), "dgx-h100", communication="measured").run()
    for rank in run.ranks:
        trace = run_of(name).trace(rank)
        assert rank_view(run, rank).parent.tolist() == trace.parent.tolist()
        assert_same(run.timed_trace(rank), trace)


@pytest.mark.slow
def test_times_that_change_do_not_change_what_they_told() -> None:
    """The same for a recording that another tool wrote, without `parent` and `step`."""
    bare = [t.with_columns({"parent": None, "step": None}) for t in traces_of("pytorch/gpt_pp_2")]
    linked = run_of("pytorch/gpt_pp_2")
    foreign = Run(bare, linked.bindings, linked.groups, linked.card)
    run = ck.simulate(foreign, "dgx-h100").run()
    for rank, before in enumerate(bare):
        timed = run.timed_trace(rank)
        assert timed.start_ns.tolist() != before.start_ns.tolist()
        assert timed.parent.tolist() == before.parent.tolist()


PASSES = {
    "select": ck.Select(phases=("backward",)),
    "compact": ck.Compact(),
    "recost": ck.Recost(scale={"host": 0.5}),
    "anonymize": ck.Anonymize(times="durations"),
}


@pytest.mark.parametrize("by_times", [False, True])
@pytest.mark.parametrize("change", PASSES)
@pytest.mark.parametrize("name", ["pytorch/gpt_pp_2", "pytorch/gpt2_124m_b8_s1024"])
def test_passes_keep_them(name: str, change: str, by_times: bool) -> None:
    """A row runs inside the nearest row around it that is left, in the same step."""
    before = run_of(name).trace(0)
    given = before.with_columns({"parent": None}) if by_times else before
    after = (ck.TraceSet([given]) | PASSES[change]).body(0)
    if change == "anonymize":  # numbered in the order of starts
        rows = np.lexsort((before.ids, before.start_ns))
        row_of = dict(enumerate(rows.tolist()))
    else:
        row_of = {int(node): row for row, node in enumerate(before.ids.tolist())}
    origin = np.array([row_of[int(node)] for node in after.ids.tolist()])
    kept = np.zeros(len(before), np.bool_)
    kept[origin] = True
    outer = nearest_kept(before.parent, kept)[origin]
    assert np.where(after.parent >= 0, origin[after.parent], -1).tolist() == outer.tolist()
    assert after.step.tolist() == before.step[origin].tolist()
    assert refuted(after) == []


def test_generated_training_is_one_step() -> None:
    """Micro-batches repeat, and are no steps."""
    made = ck.generate(model="gpt3-125m", seq=128, global_batch=8, micro_batch=1)
    assert set(made.traces.trace(0).step.tolist()) == {0}
