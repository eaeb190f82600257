"""Profiles from microbenchmarks and traces; network models from logs of nccl-tests."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines import NetworkModel, load_machine
from chakrakit.machines.calibrate import (
    fit_ranges,
    merge_profiles,
    network_from_nccl_tests,
    profile_from_micro,
    profile_from_trace,
    read_nccl_log,
)
from chakrakit.machines.device import MeasuredRow, Profile, Profiled
from support.launched import launched_product


def test_a_profile_from_a_trace_gives_its_time_back():
    profile = profile_from_trace(launched_product(123.0), "t")
    assert profile.fitted_on == ["t"]
    device = load_machine("dgx-h100").devices[0]
    assert Profiled(profile).costs(launched_product(1.0), device).ps[2] == 123_000_000


def test_micro_files_are_checked(tmp_path):
    file = tmp_path / "m.json"
    file.write_text(
        json.dumps({"gpu": "X", "rows": [{"op": "mm_bf16", "shape": [8, 8, 8], "us": 2.0}]})
    )
    profile = profile_from_micro(file)
    assert profile.device == "X"
    assert list(profile.classes) == ["gemm"]
    file.write_text('{"rows": [{"op": "mm", "shape": [8], "us": 0}]}')
    with pytest.raises(ConfigError, match="takes 0"):
        profile_from_micro(file)
    file.write_text('{"rows": [{"op": "layer_norm", "shape": [8], "us": 1}]}')
    with pytest.raises(ConfigError, match=r"layer_norm \[8\]; its shape is \[rows, columns\]"):
        profile_from_micro(file)
    file.write_text("{")
    with pytest.raises(ConfigError, match="not a file of microbenchmarks"):
        profile_from_micro(file)


@pytest.mark.parametrize(
    ("op", "kind", "shape"),
    [
        ("layer_norm_bf16", "layer_norm", [8, 2048]),  # rows, and bytes of a row
        ("softmax_bf16", "softmax", [8, 2048]),
        ("copy_bf16", "elementwise", [32_768]),
        ("mm_bf16", "gemm", [8, 1024]),
    ],
)
def test_a_benchmark_s_row_is_told_in_the_terms_of_its_class(op, kind, shape, tmp_path):
    row = {"op": op, "shape": [8, 1024], "us": 2.0, "flops": 7.0, "bytes": 32_768.0}
    (tmp_path / "m.json").write_text(json.dumps({"rows": [row]}))
    flops = 7.0 if kind == "gemm" else 0.0
    classes = profile_from_micro(tmp_path / "m.json").classes
    assert classes == {kind: [MeasuredRow(shape, 2.0, flops, 32_768.0)]}


def test_merging_keeps_the_first_of_equal_shapes():
    a = Profile(classes={"gemm": [MeasuredRow([1], 1.0)]}, fitted_on=["a"])
    b = Profile(classes={"gemm": [MeasuredRow([1], 9.0), MeasuredRow([2], 2.0)]}, fitted_on=["b"])
    merged = merge_profiles([a, b], "ab")
    assert [r.us for r in merged.classes["gemm"]] == [1.0, 2.0]
    assert merged.fitted_on == ["a", "b"]


LOG = """# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)
# Using devices
#  Rank  0 Group  0 Pid 1 on h device  0 NVIDIA H100
#  Rank  1 Group  0 Pid 1 on h device  1 NVIDIA H100
# all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong
{rows}
"""


def nccl_log(points):
    rows = "\n".join(
        f"{s:>12} {s // 4:>12} float sum -1 {us:8.2f} 0.1 0.1 0 {us:8.2f} 0.1 0.1 0"
        for s, us in points
    )
    return LOG.format(rows=rows)


def test_network_models_from_nccl_tests(tmp_path):
    points = [(2**p, 10 + 2**p / 1e3) for p in range(3, 14)]
    points += [(2**p, 30 + 2**p / 1e5) for p in range(14, 28)]
    file = tmp_path / "all_reduce.log"
    file.write_text(nccl_log(points))
    model = network_from_nccl_tests([file])
    ranges = model.collectives["all-reduce"][2]
    assert len(ranges) == 2
    for size, us in points:
        assert model.seconds("all-reduce", 2, size) * 1e6 == pytest.approx(us, rel=0.1)
    assert model.seconds("all-reduce", 4, 8) is None
    assert model.fitted_on == ["all_reduce.log"]
    file.write_text("nothing")
    with pytest.raises(FormatError, match="not a log of nccl-tests"):
        network_from_nccl_tests([file])


def test_one_straight_line_needs_one_range():
    assert len(fit_ranges([(2.0**p, 5 + 2.0**p / 2e4) for p in range(5, 30)])) == 1


def test_attention_measured_both_ways_gives_its_backward(tmp_path):
    rows = [
        {"op": "sdpa_causal_bf16", "shape": [8, 128], "us": 10.0, "flops": 70.0, "bytes": 30.0},
        {"op": "sdpa_both_bf16", "shape": [8, 128], "us": 35.0, "flops": 70.0, "bytes": 30.0},
        {"op": "add", "shape": [4, 4], "us": 2.0, "bytes": 96.0},
    ]
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"rows": rows}))
    classes = profile_from_micro(file).classes
    [backward] = classes["attention_backward"]
    assert (backward.us, backward.flops, backward.bytes) == (25.0, 50.0, 20.0)
    assert "attention_both" not in classes
    assert classes["elementwise"][0].shape == [96]  # what only streams is keyed by its bytes


def test_an_all_gather_is_counted_by_one_ranks_share(tmp_path):
    points = [(2**p, 10 + 2**p / 1e3) for p in range(3, 20)]
    file = tmp_path / "all_gather_perf.log"
    file.write_text(nccl_log(points).replace("all_reduce_perf", "all_gather_perf"))
    model = network_from_nccl_tests([file])
    for size, us in points:
        assert model.seconds("all-gather", 2, size // 2) * 1e6 == pytest.approx(us, rel=0.01)


def test_a_number_that_is_none_is_refused_with_its_file(tmp_path):
    file = tmp_path / "all_reduce.log"
    file.write_text(nccl_log([(8, 1.0)]).replace("    1.00", "1.0.0"))
    with pytest.raises(FormatError, match=r"all_reduce.log.*'1\.0\.0' is not a size or time"):
        network_from_nccl_tests([file])


def test_a_log_without_end_is_not_read_whole():
    with pytest.raises(ConfigError, match="/dev/zero: larger than 16 MiB"):
        read_nccl_log(Path("/dev/zero"))


def test_a_network_model_without_bandwidth_is_refused():
    sizes = {"most": 1, "alpha_us": 1, "bytes_per_us": 0, "error": 0}
    with pytest.raises(msgspec.ValidationError, match=r"> 0.*bytes_per_us"):
        msgspec.convert({"collectives": {"all-reduce": {2: [sizes]}}}, NetworkModel)


BEHIND_MPIRUN = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor)
[1,0]<stdout>:#  Rank  0 Group  0 Pid 1 on node device  0 NVIDIA H100
[1,0]<stdout>:#  Rank  1 Group  0 Pid 1 on node device  1 NVIDIA H100
[1,0]<stdout>:     1048576   262144  float  sum  -1   28.01  37.44  56.15  N/A   27.9  37.6  56.4  N/A
[1,0]<stdout>:  1073741824   262144  float  sum  -1  1.2e+06  37.44  56.15  0   27.9  37.6  56.4  0
# Out of bounds values : 0 OK
"""


def test_a_log_of_several_runs_behind_a_launcher(tmp_path: Path) -> None:
    titles = ("all_reduce_perf", "alltoall_perf")
    (tmp_path / "all.log").write_text(
        "\n".join(f"$ mpirun ./{t} -b 1M\n{BEHIND_MPIRUN}" for t in titles)
    )
    points = [(float(1 << 20), 28.01), (float(1 << 30), 1.2e6)]
    assert read_nccl_log(tmp_path / "all.log") == [
        ("all-reduce", 2, points),
        ("all-to-all", 2, points),
    ]
