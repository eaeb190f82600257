"""From files of measurements to a file for the simulator, and how well it fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.machines import calibrate_network, calibrate_profile
from chakrakit.machines.device.profile import read_profile


def micro(path: Path, *rows: tuple[str, list[int], float]) -> Path:
    path.write_text(json.dumps({"rows": [{"op": o, "shape": s, "us": us} for o, s, us in rows]}))
    return path


def test_a_profile_is_written_with_the_error_of_rows_left_out(tmp_path: Path) -> None:
    products = [("mm", [n, n, n], n**3 / 1e6) for n in (512, 1024, 2048, 4096)]
    source = micro(tmp_path / "m.json", *products, ("gather", [8], 1.0))
    report = calibrate_profile([source], tmp_path / "p.json")
    told = {c.operation: c for c in report.classes}
    assert (told["gemm"].rows, report.fitted_on) == (4, ["m.json"])
    assert 0 <= (told["gemm"].median_error or 0) <= (told["gemm"].error_90 or 0)
    assert told["gather"].median_error is None  # one row cannot be left out
    assert sorted(read_profile(tmp_path / "p.json").classes) == ["gather", "gemm"]


def test_measurements_without_an_operation_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no operation has both a shape and a time"):
        calibrate_profile([micro(tmp_path / "m.json")], tmp_path / "p.json")
    assert not (tmp_path / "p.json").exists()


def test_a_network_model_is_written_with_its_ranges(tmp_path: Path) -> None:
    lines = ["# all_reduce_perf", "#  Rank  0 on h", "#  Rank  1 on h"]
    lines += [f" {2**p} {2**p} float sum -1 {5 + 2**p / 1e4:.4f} 0 0 0" for p in range(10, 25)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    [found] = calibrate_network([tmp_path / "a.log"], tmp_path / "n.json").ranges
    assert (found.collective, found.ranks, found.most_bytes) == ("all-reduce", 2, 2**24)
    assert found.alpha_us == pytest.approx(5, rel=0.01)
    assert found.gb_per_s == pytest.approx(10, rel=0.01)
    assert json.loads((tmp_path / "n.json").read_text())["fitted_on"] == ["a.log"]


def test_a_collective_of_a_network_model_takes_what_was_measured(tmp_path: Path) -> None:
    """A measured time holds its launch, which the machine's library does not add again."""
    lines = ["# all_reduce_perf", *(f"#  Rank  {r} on h" for r in range(8))]
    lines += [f" {2**p} {2**p} float sum -1 30.0 0 0 0" for p in range(10, 25)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    calibrate_network([tmp_path / "a.log"], tmp_path / "n.json")
    builder = ck.TraceBuilder()
    builder.collective("sync", ck.CollectiveType.ALL_REDUCE, 4096, pg_name="all")
    bindings = {r: ck.Binding(0) for r in range(8)}
    traces = ck.TraceSet([builder.build()], bindings, ck.Groups({"all": tuple(range(8))}))
    summary = ck.simulate(traces, "dgx-h100", network_model=str(tmp_path / "n.json")).summary
    assert summary.makespan_ns == pytest.approx(30_000, rel=1e-3)
