"""Workloads of other tools, opened by one command with the right totals."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from chakrakit.errors import ChakraError, FormatError
from chakrakit.sources.foreign import parse_goal, workload_of
from chakrakit.sources.foreign.goal import _RECORD, CALC, MAGIC, parse_binary_goal
from chakrakit.trace.model import EdgeForm
from support.commands import chakra, data
from support.foreign_workloads import AICB, ASTRA1, GOAL, MSCCL, MSCCLPP, PARAM, SIMAI


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """What `chakra info` says of a file with this text."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))

    def info(text, name="workload"):
        (tmp_path / name).write_text(text)
        return data("info", tmp_path / name)

    return info


def communication(info):
    return {(c["type"], c["group"]): (c["count"], c["bytes"]) for c in info["communication"]}


def test_goal_with_comments_braces_in_a_line_and_both_sorts_of_dependencies(opened):
    info = opened(GOAL)
    assert (info["ranks"], info["nodes"]) == (2, 5)
    assert communication(info) == {("SEND", ""): (1, 64), ("RECV", ""): (1, 64)}
    ranks = parse_goal(GOAL.encode(), "x")
    assert (ranks[1].ends, ranks[1].starts) == ([(0, 1)], [(1, 2)])
    assert ranks[0].cpu == [0, 1]


def binary_calculation(nanoseconds: int) -> bytes:
    """A binary schedule of one rank that computes for so long."""
    operation = np.zeros(1, _RECORD)
    operation["kind"], operation["size"] = CALC, nanoseconds
    rank = struct.pack("<II", 1, 0) + operation.tobytes()
    begin = 6 + 16
    head = struct.pack("<IHQQ", 1, 0, begin, begin + len(rank))
    return MAGIC + head + rank


def test_times_of_binary_goal_stay_below_half_of_what_64_bits_hold():
    (rank,) = parse_binary_goal(binary_calculation(2**62 - 1), "x")
    assert rank.size == [2**62 - 1]
    with pytest.raises(FormatError, match="unknown kind, size or peer"):
        parse_binary_goal(binary_calculation(2**62), "x")


def test_goal_s_streams_are_numbers_of_one_byte():
    ranks = parse_goal(GOAL.replace("cpu 1", "cpu 255").encode(), "x")
    assert ranks[0].cpu == [0, 255]


def test_the_only_file_of_a_job_is_rank_0_whatever_its_name():
    workload = workload_of(PARAM.encode())
    assert workload.read({"rank7.json": PARAM.encode()}).ranks == (0,)
    both = workload.read({f"rank{n}.json": PARAM.encode() for n in (1, 0)})
    assert both.ranks == (0, 1)


def test_start_dependencies_are_start_edges():
    workload = workload_of(GOAL.encode())
    edges = workload.read({"x": GOAL.encode()}).trace(1).edges
    assert edges.form.tolist() == [EdgeForm.FINISH_START, EdgeForm.START_START]


def test_simai_s_groups_and_bytes(opened):
    """16 GPUs in two stages: eight ranks of one, tensor groups of two, experts over two replicas."""
    info = opened(SIMAI)
    assert info["ranks"] == 8
    assert communication(info) == {
        ("ALL_REDUCE", "tp"): (16, 8 * (4096 + 8192)),
        ("ALL_TO_ALL", "ep"): (16, 2 * 8 * 2048),
        ("REDUCE_SCATTER", "dp_ep"): (8, 8 * 65536),
    }


def test_astra_sim_1_0_s_layers_run_forward_then_backward(opened, tmp_path):
    info = opened(ASTRA1)
    assert communication(info) == {("ALL_REDUCE", "dp"): (16, 8 * (37632 + 65536))}
    assert info["types"]["COMP_NODE"] == 8 * (2 * 3 + 2)
    order = data(
        "query", tmp_path / "workload", "SELECT name FROM nodes WHERE rank = 0 ORDER BY id"
    )
    assert [row[0] for row in order["rows"]][:3] == [
        "conv1 forward",
        "conv2 forward",
        "conv2 weight gradient",
    ]


def test_what_a_workload_s_file_does_not_say_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "w.txt").write_text(ASTRA1)
    assert "assumed: 8 ranks" in chakra("info", tmp_path / "w.txt").stderr


def test_aicb_s_rows_are_a_chain_with_start_up_before_it(opened, tmp_path):
    info = opened(AICB)
    assert communication(info) == {
        ("ALL_REDUCE", "dp_group"): (8, 64),
        ("ALL_GATHER", "tp_group"): (8, 8 * 2048),
        ("REDUCE_SCATTER", "dp_group"): (8, 8 * 65536),
    }
    steps = data(
        "query",
        tmp_path / "workload",
        "SELECT step, duration_ns FROM nodes WHERE rank = 3 ORDER BY id",
    )
    assert steps["rows"] == [[0, 0], [1, 0], [1, 12_500], [1, 0]]


def test_param_s_files_of_all_ranks_make_one_set(tmp_path, opened):
    (tmp_path / "comms").mkdir()
    for rank in (0, 1):
        (tmp_path / "comms" / f"rank{rank}.json").write_text(PARAM)
    info = data("info", tmp_path / "comms")
    assert info["ranks"] == 2
    assert communication(info) == {("ALL_REDUCE", "1"): (2, 2048), ("ALL_TO_ALL", "1"): (2, 256)}


def test_an_algorithm_of_msccl_is_its_messages(opened):
    """A ring among three sends two thirds of the data from each: 1 MiB, which is assumed and said."""
    info = opened(MSCCL, "ring.xml")
    sent = 2 * 3 * round((1 << 20) / 3)
    assert (info["ranks"], info["nodes"]) == (3, 12)
    assert communication(info) == {("SEND", ""): (6, sent), ("RECV", ""): (6, sent)}


def test_a_plan_of_mscclpp_is_for_the_smallest_size_it_says(opened):
    """Two exchange halves of 4096 bytes: each reads the other's, adds its own, writes the sum back."""
    info = opened(MSCCLPP, "plan.json")
    assert communication(info) == {("SEND", ""): (4, 4 * 2048), ("RECV", ""): (4, 4 * 2048)}


@pytest.mark.parametrize("text", [GOAL, SIMAI, ASTRA1, AICB, MSCCL, MSCCLPP])
def test_workloads_are_analyzed_and_simulated_as_they_lie(tmp_path, monkeypatch, text):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "w").write_text(text)
    assert any("no times" in note for note in data("analyze", tmp_path / "w")["notes"])
    assert data("simulate", tmp_path / "w", "--machine", "dgx-h100")["makespan_ns"] > 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOAL.replace("num_ranks 2", "num_ranks 3"), "rank 2 is missing"),
        (GOAL.replace("num_ranks 2", "num_ranks 999999999"), "num_ranks"),
        (GOAL.replace("l2 requires l1\n}", "l2 requires l9\n}"), "no operation 'l9'"),
        (GOAL.replace("to 1", "to 7"), "no such rank"),
        (GOAL.replace("from 0", "from -1"), "any rank"),
        (GOAL.replace("calc 100", "dance 100"), "not an operation of GOAL"),
        (GOAL.replace("cpu 1", "cpu 256"), "a number is too large"),
        (GOAL.replace("rank 1 {", ""), "outside"),
        (SIMAI.replace("\n3\n", "\n9\n"), "3 layers; line 2 says 9"),
        (SIMAI.replace("\n3\n", "\n\n3\n"), "line 2: '' is not a number of layers"),
        (SIMAI.replace(" vpp: 1", "\u2028 vpp: 1"), "line 2: 'vpp:' is not a number of layers"),
        (SIMAI.replace("ALLREDUCE", "ALLDANCE"), "no collective"),
        (SIMAI.replace("2000", "-2000"), "line 4"),
        (SIMAI.replace("all_gpus: 16", "all_gpus: 14"), "do not divide"),
        (AICB.replace("CommGroup.tp_group,2", "CommGroup.tp_group,3"), "does not divide"),
        (AICB.replace("all_gather", "all_dance"), "no communication"),
        (AICB.replace("CommGroup.tp_group,2", "CommGroup.tp_group,1.5"), "must be a whole number"),
        (AICB.replace("CommGroup.tp_group,2,", "CommGroup.tp_group,2,-"), "msg_size is '-"),
        (PARAM.replace("256", "-256"), "in_msg_size"),
        (MSCCL.replace('type="rcs"', 'type="dance"'), "not known"),
        (MSCCL.replace('send="1"', 'send="7"'), "there are 3 gpus"),
        (MSCCLPP.replace("rres", "dance"), "not known"),
    ],
)
def test_damage_is_named_with_its_line(text, problem):
    workload = workload_of(text.encode())
    with pytest.raises(ChakraError, match=problem):
        workload.read({"w": text.encode()})
