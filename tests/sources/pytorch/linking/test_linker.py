"""Real recordings linked whole: nothing lost, times reproduced, communication as it was."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import numpy as np
import pytest

import chakrakit
from chakrakit.errors import ConfigError, FormatError
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.model import CollectiveType, NodeType
from chakrakit.trace.validation import validate


def _load(path):
    return json.loads(gzip.decompress(path.read_bytes()))


RECORDED = LinkOptions(as_recorded=True)
SETS = ("cnn_ddp_2", "gpt_pp_2", "gpt_fsdp_tp_4", "gpt2_124m_b8_s1024", "resnet50_b128")


@pytest.mark.parametrize("name", SETS)
def test_everything_in_the_files_is_in_the_trace_and_the_schedule_is_the_measurement(data, name):
    _, report = link([data / name], RECORDED)
    for rank in report.ranks:
        assert rank.host_ops.linked == rank.host_ops.in_ > 0
        assert rank.device_activities.linked == rank.device_activities.in_
        assert rank.device_time_ns.linked == rank.device_time_ns.in_
        assert rank.scheduled_span_ns == pytest.approx(rank.measured_span_ns, rel=0.01)
        assert rank.edge_violations == 0
        assert rank.start_error_ns["median"] == 0
        assert sum(rank.matched_by.values()) == rank.host_ops.in_
        assert "edges_in_circles" not in rank.dropped


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_device_time_by_kernel_name_is_kinetos_to_the_nanosecond(data, name):
    run, _ = link([data / name], RECORDED)
    trace = run.trace(0)
    ours: Counter[str] = Counter()
    on_device = ~trace.column("is_cpu_op").astype(bool)
    for kernel, ns in zip(
        trace.names.filter(on_device).to_pylist(), trace.duration_ns[on_device], strict=True
    ):
        ours[kernel] += int(ns)
    theirs: Counter[str] = Counter()
    for event in _load(data / name / "kineto.json.gz")["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            theirs[event["name"]] += round(event["dur"] * 1000)
    assert ours == theirs


def _communication(run, rank):
    trace = run.trace(rank)
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
    return Counter(
        (
            CollectiveType(trace[int(r)].get("comm_type")).name,
            trace[int(r)].get("comm_size"),
            trace[int(r)].get("pg_name"),
        )
        for r in rows
    )


def test_ddp_on_gloo_has_one_node_per_collective(data):
    run, _ = link([data / "cnn_ddp_2"])
    for rank in run.ranks:
        assert _communication(run, rank) == {
            ("ALL_REDUCE", 58_600, "1"): 1,
            ("BROADCAST", 896, "1"): 1,
            ("BROADCAST", 56, "1"): 1,
        }


def test_a_mesh_of_two_by_two_gets_the_right_groups(data):
    """FSDP's collectives name no group: the ends of their members tell which one it was."""
    run, report = link([data / "gpt_fsdp_tp_4"])
    assert dict(run.groups) == {
        "5": (0, 1, 2, 3),
        "1": (0, 2),
        "2": (1, 3),
        "3": (0, 1),
        "4": (2, 3),
    }
    data_group, tensor_group = {0: "1", 1: "2", 2: "1", 3: "2"}, {0: "3", 1: "3", 2: "4", 3: "4"}
    for rank in run.ranks:
        mine, other = data_group[rank], tensor_group[rank]
        assert _communication(run, rank) == {
            ("ALL_GATHER", 279_040, mine): 1,
            ("ALL_GATHER", 199_040, mine): 4,
            ("REDUCE_SCATTER", 398_080, mine): 2,
            ("REDUCE_SCATTER", 558_080, mine): 1,
            ("ALL_REDUCE", 131_072, other): 12,
        }
        assert report.ranks[rank].inferred == {"groups": 8}


def test_messages_have_ends_and_a_tag(data):
    run, report = link([data / "gpt_pp_2"])
    for rank in run.ranks:
        trace = run.trace(rank)
        assert report.ranks[rank].p2p == {"SEND": 2, "RECV": 2}
        for kind, mine, other in (
            (NodeType.COMM_SEND_NODE, "comm_src", "comm_dst"),
            (NodeType.COMM_RECV_NODE, "comm_dst", "comm_src"),
        ):
            for row in np.flatnonzero(trace.is_type(kind)).tolist():
                node = trace[row]
                assert (node.get(mine), node.get(other)) == (rank, 1 - rank)
                assert (node.get("comm_tag"), node.get("comm_size")) == (0, 65_536)


@pytest.mark.parametrize("name", SETS)
def test_what_is_written_is_valid_and_reads_back_the_same(data, name, tmp_path):
    run, _ = link([data / name], RECORDED)
    chakrakit.write(run, tmp_path / "run")
    again = chakrakit.read(tmp_path / "run")
    assert isinstance(again, chakrakit.Run)
    assert validate(again).ok
    for rank in run.ranks:
        assert again.trace(rank).dangling.num_rows == 0
        assert (again.start(rank) == run.start(rank)).all()
        assert (again.trace(rank).edges.lag == run.trace(rank).edges.lag).all()


@pytest.mark.slow
def test_flops_of_a_training_step_are_those_of_the_model(data):
    """GPT-2 of 124 M parameters, 8 × 1,024 tokens: six FLOPs per parameter and token, and attention."""
    run, _ = link([data / "gpt2_124m_b8_s1024"], RECORDED)
    weights = 12 * 12 * 768**2 + 50257 * 768
    # Causal attention: two half products forward, and two and a half times that backward.
    attention = 12 * (2 * 8 * 1024**2 * 768) * 3.5
    expected = 6 * weights * 8192 + attention
    assert run.trace(0).column("num_ops", 0).sum() == pytest.approx(expected, rel=0.01)
    run, _ = link([data / "resnet50_b128"], RECORDED)
    assert run.trace(0).column("num_ops", 0).sum() == pytest.approx(3 * 2 * 4.1e9 * 128, rel=0.05)


def test_a_product_that_copies_its_bias_first_still_counts(data):
    """On a host `aten::addmm` calls `aten::copy_`; the work is addmm's all the same."""
    trace = link([data / "gpt_pp_2"])[0].trace(0)
    products = np.isin(trace.names.to_pylist(), ("aten::addmm", "aten::mm"))
    assert products.any()
    assert (trace.column("num_ops", 0)[products] > 0).all()


def test_kernels_without_a_launch_in_the_file_are_linked(tmp_path):
    """More of them than the launch queue is deep, and nothing to learn its depth from."""
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 1.0}
    events = [
        {**kernel, "ts": 1000 + 2.0 * i, "args": {"stream": 7, "correlation": i, "device": 0}}
        for i in range(3000)
    ]
    (tmp_path / "kineto.json").write_text(json.dumps({"traceEvents": events}))
    _, report = link([tmp_path / "kineto.json"])
    assert report.ranks[0].device_activities.linked == 3000


def test_phases_and_steps_are_told(data):
    trace = link([data / "gpt2_124m_b8_s1024"], RECORDED)[0].trace(0)
    phases = Counter(trace.column("phase", "").tolist())
    assert phases["forward"] > 1000 < phases["backward"]
    assert phases["optimizer"] > 0
    assert set(np.unique(trace.column("step", -1))) == {-1, 4}


def test_kineto_alone_and_observer_alone(data):
    folder = data / "cnn_ddp_2"
    run, report = link([folder / "kineto_0.json.gz"])
    assert report.ranks[0].host_ops.linked == 1564
    assert report.ranks[0].collectives == {"ALL_REDUCE": 1, "BROADCAST": 2}
    run, report = link([folder / "et_0.json.gz"])
    assert report.ranks[0].host_ops.linked == 1564
    assert report.ranks[0].collectives == {"ALL_REDUCE": 1, "BROADCAST": 2}
    assert run.trace(0).graph.is_acyclic


def test_nothing_to_link_is_one_clear_error(tmp_path):
    with pytest.raises(FormatError, match="no observer or Kineto file"):
        link([tmp_path])
    with pytest.raises(FormatError, match="does not exist"):
        link([tmp_path / "nowhere.json"])


def test_times_need_one_file_per_rank(data):
    with pytest.raises(ConfigError, match="1 times files for 2 ranks"):
        link([data / "cnn_ddp_2"], LinkOptions(times=(data / "cnn_ddp_2" / "kineto_0.json.gz",)))
