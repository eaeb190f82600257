"""Two passes: times from one recording, structure from another."""

from __future__ import annotations

from chakrakit.sources.pytorch.read import read_kineto, read_observer
from chakrakit.sources.pytorch.two_passes import align_passes
from chakrakit.trace.model import EdgeKind


def test_every_step_of_the_times_gets_the_observers_structure(recording):
    """One observed step stands for two timed ones; tensors join operators within each."""
    recording.device = "cpu"
    recording.op("ProfilerStep#7", 0, 100)
    recording.op("aten::mul", 10, 10, writes=(1,))
    recording.op("aten::neg", 30, 10, reads=(1,))
    observer = read_observer(recording.observer_json().encode())
    recording.events.clear()
    for step in (3, 4):
        mark = (f"ProfilerStep#{step}", 0, 50)
        for name, ts, dur in (mark, ("aten::mul", 5, 4), ("aten::neg", 20, 4)):
            cat = "user_annotation" if "Step" in name else "cpu_op"
            recording._event(cat, name, 1, 60 * step + ts, dur)
    times = read_kineto(recording.kineto_json().encode())
    from chakrakit.sources.pytorch.linking.rank import link_rank

    rank = link_rank(0, observer, times, align_passes(observer, times))
    assert (rank.line.operator >= 0).all()
    assert [s.number for s in rank.attribution.steps] == [3, 4]
    tensors = rank.edges.where(rank.edges.kind == EdgeKind.TENSOR)
    starts = rank.line.start
    assert starts[tensors.src].tolist() == [185_000, 245_000]
    assert starts[tensors.dst].tolist() == [200_000, 260_000]


def _passes(recording, observed, timed):
    """Operator names of either pass, the threads of the second given with them."""
    for i, name in enumerate(observed):
        recording.op(name, 10 * i, 5)
    observer = read_observer(recording.observer_json().encode())
    recording.events.clear()
    for i, (name, tid) in enumerate(timed):
        recording._event("cpu_op", name, tid, 10 * i, 5)
    found = align_passes(observer, read_kineto(recording.kineto_json().encode()))
    names = [observer.texts[n] for n in observer.name]
    return [names[o] if o >= 0 else None for o in found.operator_of], found


def test_what_only_one_pass_saw_has_no_partner(recording):
    pairs, found = _passes(recording, ["a", "b", "c"], [("a", 1), ("x", 1), ("b", 1), ("c", 1)])
    assert pairs == ["a", None, "b", "c"]
    assert found.rules == {"order and name (two passes)": 3}


def test_what_ran_on_another_thread_is_paired_by_name(recording):
    pairs, _ = _passes(recording, ["a", "b", "c", "d"], [("a", 1), ("b", 1), ("d", 1), ("c", 2)])
    assert pairs == ["a", "b", "d", "c"]


def test_an_operator_of_two_events_is_at_the_first(recording):
    """Two timed steps, one observed: `event_of` names the event of the first step."""
    for name in ("ProfilerStep#7", "a"):
        recording.op(name, 0, 9)
    observer = read_observer(recording.observer_json().encode())
    recording.events.clear()
    for step in (0, 1):
        recording._event("user_annotation", f"ProfilerStep#{step}", 1, 100 * step, 50)
        recording._event("cpu_op", "a", 1, 100 * step + 10, 5)
    found = align_passes(observer, read_kineto(recording.kineto_json().encode()))
    row = [observer.texts[n] for n in observer.name].index("a")
    assert found.operator_of[[1, 3]].tolist() == [row, row]
    assert found.event_of[row] == 1
