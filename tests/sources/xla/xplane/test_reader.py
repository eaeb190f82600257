"""A profile of JAX on an H200: kernels with their instructions, steps by executions."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources import link
from chakrakit.sources.pytorch.linking import LinkOptions
from chakrakit.sources.xla import read_devices
from support.paths import DATA

RECORDED = LinkOptions(as_recorded=True)
PROFILE = DATA / "xla" / "run.xplane.pb.gz"


def test_a_step_is_one_execution_of_the_main_module() -> None:
    run, report = link([PROFILE], RECORDED)

    (rank,) = report.ranks
    assert [s["step"] for s in rank.steps] == [0, 1, 2, 3, 4]
    assert rank.device_activities.linked == rank.device_activities.in_ == 65
    assert rank.edges["launch"] == 65
    assert rank.edge_violations == 0
    assert rank.scheduled_span_ns == pytest.approx(rank.measured_span_ns, rel=0.01)
    steps = run.trace(0).column("step", -1)
    assert [(steps == i).sum() for i in range(5)] == [13] * 5


def test_kernels_know_their_instruction_its_operands_and_its_place() -> None:
    run, _ = link([PROFILE], RECORDED)
    trace = run.trace(0)

    row = trace.column("operator", "").tolist().index("gemm_fusion_dot.1")
    assert trace.column("inputs_shapes", "")[row] == "[[4096, 8192], [4096, 2048], [8192, 2048]]"
    assert trace.column("inputs_types", "")[row] == '["bf16", "bf16", "bf16"]'
    assert trace.column("module", "")[row].startswith("jit(train_step)/")


def test_a_module_file_beside_the_profile_is_used_and_not_linked(tmp_path: Path) -> None:
    (tmp_path / "run.xplane.pb").write_bytes(gzip.decompress(PROFILE.read_bytes()))
    module = DATA / "xla" / "train_step.hlo.pb.gz"
    (tmp_path / "module.hlo.pb").write_bytes(gzip.decompress(module.read_bytes()))

    _, report = link([tmp_path], RECORDED)

    assert report.ignored_files == {}
    assert len(report.ranks) == 1


def test_a_module_alone_has_no_times() -> None:
    with pytest.raises(FormatError, match="have no times"):
        link([DATA / "xla" / "train_step.hlo.pb.gz"])


@pytest.mark.parametrize("cut", [100, 5_000, 50_000])
def test_a_truncated_profile_ends_in_one_error(cut: int) -> None:
    with pytest.raises(FormatError, match=r"not a profile of XLA|no operation of a device"):
        read_devices(gzip.decompress(PROFILE.read_bytes())[:cut])
