"""Which files belong together, which events are which operators, and recordings side by side."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.match.sequences import align
from chakrakit.sources.pytorch.match.two_passes import align_passes
from chakrakit.sources.pytorch.read.files import find_pairs
from chakrakit.sources.pytorch.read.kineto import read_kineto
from chakrakit.sources.pytorch.read.observer import read_observer
from chakrakit.trace.model.edges import EdgeKind


def test_a_directory_of_ranks(data):
    found = find_pairs([data / "gpt_fsdp_tp_4"])
    assert [p.rank for p in found.pairs] == [0, 1, 2, 3]
    for pair in found.pairs:
        assert [p.name for p in pair.paths] == [
            f"et_{pair.rank}.json.gz",
            f"kineto_{pair.rank}.json.gz",
        ]


def test_a_second_kineto_of_the_same_process_is_not_taken_for_the_pair(data):
    found = find_pairs([data / "gpt2_124m_b8_s1024"])
    assert [p.name for p in found.pairs[0].paths] == ["et.json.gz", "kineto.json.gz"]
    assert found.pairs[0].times == data / "gpt2_124m_b8_s1024" / "kineto_only.json.gz"
    passed_over = {path.rsplit("/", 1)[1]: why for path, why in found.ignored.items()}
    assert "neither" in passed_over["card.json"]


def test_two_recordings_that_say_the_same_rank_are_refused(recording, tmp_path):
    recording.op("a", 0, 1)
    recording.kineto = {"distributedInfo": {"rank": 3}}
    recording.write(tmp_path / "x")
    recording.write(tmp_path / "y")
    with pytest.raises(FormatError, match="both say rank 3"):
        find_pairs([tmp_path])


def _numbers(text):
    return np.array([ord(c) for c in text], np.int32)


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("abcdef", "abcdef", "abcdef"),
        ("abcdef", "abXYcdef", "abcdef"),
        ("abXcdef", "abYYcdef", "abcdef"),
        ("abcdef", "", ""),
        ("abcxyz", "xyz", "xyz"),
    ],
)
def test_sequences_are_aligned_around_what_differs(left, right, pairs):
    a, b = align(_numbers(left), _numbers(right))
    assert "".join(left[i] for i in a) == pairs == "".join(right[i] for i in b)


def test_aligning_long_sequences_with_a_hole():
    whole = np.random.default_rng(0).integers(0, 50, 20_000).astype(np.int32)
    cut = np.delete(whole, np.r_[5000:5100])
    a, b = align(whole, cut)
    assert len(a) > 19_800
    assert (whole[a] == cut[b]).all()


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


def test_what_nothing_explains_starts_when_it_did(recording):
    """A thread nobody called is anchored to the first row, so the schedule still holds."""
    recording.op("main", 0, 10)
    recording.op("loader", 40, 10, tid=5)
    rank = recording.link()
    anchored = rank.edges.where(rank.edges.kind == EdgeKind.INFERRED)
    assert [rank.names[r] for r in anchored.dst] == ["loader"]
    assert anchored.lag.tolist() == [40_000]


def test_modules_are_paths_through_the_python_stack(recording):
    """Ranges of nested modules give a path; a block's number gives the layer."""
    recording.op("aten::mm", 25, 5)
    for name, ts, dur in (("GPT_0", 0, 100), ("Block_3", 10, 50), ("Linear_7", 20, 20)):
        recording._event("python_function", f"nn.Module: {name}", 1, ts, dur)
    found = recording.link().attribution
    assert [found.modules[m] for m in found.module] == ["GPT_0/Block_3/Linear_7"]
    assert found.layer.tolist() == [3]


def test_phases_follow_annotations_and_the_backward_engine(recording):
    recording.op("ProfilerStep#1", 0, 100)
    recording.op("Model.forward", 1, 20)
    recording.op("aten::mm", 2, 5)
    recording.op("autograd::engine::evaluate_function: MmBackward0", 30, 20)
    recording.op("aten::mul", 31, 5)
    recording.op("Optimizer.step#SGD.step", 60, 20)
    recording.op("aten::add_", 61, 5)
    rank = recording.link()
    told = {rank.names[r]: int(rank.attribution.phase[r]) for r in range(len(rank.line))}
    assert (told["aten::mm"], told["aten::mul"], told["aten::add_"]) == (0, 1, 2)
    assert told["ProfilerStep#1"] == -1
