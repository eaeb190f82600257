"""The points of a study: every combination, each with a content key."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep import grid, read_study


def test_the_grid_is_every_combination(study_file: Path) -> None:
    found = grid(read_study(study_file))
    assert len(found.points) == 3 * 2 * 2
    assert found.points[1].parameters == {
        "plan.tp": 1,
        "plan.data": "zero1",
        "machine": "slow",
        "passes": "none",
    }
    assert [p.workload.plan.dp for p in found.points[::4]] == [8, 4, 2]
    assert len({p.key for p in found.points}) == len(found.points)


def test_what_cannot_be_is_left_out_where_that_is_asked_for(study_file: Path) -> None:
    text = study_file.read_text().replace("[1, 2, 4]", "[1, 2, 3, 4]")
    study_file.write_text(text + "impossible: skip\n")
    found = grid(read_study(study_file))
    assert (len(found.points), found.skipped) == (12, 4)


def test_a_study_of_nothing_but_impossible_points(study_file: Path) -> None:
    study_file.write_text(study_file.read_text().replace("[1, 2, 4]", "[3]") + "impossible: skip\n")
    with pytest.raises(ConfigError, match="no combination is feasible"):
        grid(read_study(study_file))


def test_a_degree_of_0_is_refused_by_name(study_file: Path) -> None:
    study_file.write_text(study_file.read_text().replace("[1, 2, 4]", "[0]"))
    with pytest.raises(ConfigError, match="tp is 0; it must be 1 or more"):
        grid(read_study(study_file))


def test_a_field_whose_name_is_a_number_is_refused_by_it(study_file: Path) -> None:
    study_file.write_text(study_file.read_text().replace("[1, 2, 4]", "[{1e-300: 2}]"))
    with pytest.raises(ConfigError, match="'1e-300' is not a field of a workload"):
        grid(read_study(study_file))


def test_a_value_may_set_several_fields(study_file: Path) -> None:
    axis = "shape: [{plan.tp: 2, plan.pp: 2}, {plan.tp: 4, model.layers: 4}]"
    study_file.write_text(study_file.read_text().replace("plan.tp: [1, 2, 4]", axis))
    workloads = [p.workload for p in grid(read_study(study_file)).points]
    assert {(w.plan.tp, w.plan.pp, w.model.layers) for w in workloads} == {(2, 2, 2), (4, 1, 4)}  # type: ignore[union-attr]


def test_a_key_changes_with_everything_that_decides_the_result(
    study_file: Path, tmp_path: Path
) -> None:
    text = study_file.read_text()
    first = {p.key for p in grid(read_study(study_file)).points}
    assert {p.key for p in grid(read_study(study_file)).points} == first
    study_file.write_text(text.replace("name: tiny", "name: other"))
    assert {p.key for p in grid(read_study(study_file)).points} == first
    for old, new in (("seq: 512", "seq: 1024"), ("45 GB/s", "40 GB/s"), ("layers: 2", "layers: 4")):
        study_file.write_text(text.replace(old, new))
        assert {p.key for p in grid(read_study(study_file)).points} != first
    study_file.write_text(text + "simulate: {network: analytical}\n")
    assert {p.key for p in grid(read_study(study_file)).points}.isdisjoint(first)


def test_a_machine_file_beside_the_study_is_found_and_its_content_counts(study_file: Path) -> None:
    machine = study_file.parent / "mine.yaml"
    text = "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}\n" + (
        "network: [{topology: switch, size: 8, bandwidth: 1 GB/s}]\n"
    )
    machine.write_text(text)
    study_file.write_text(study_file.read_text().replace("- dgx-h100\n", "- mine.yaml\n"))
    before = [p.key for p in grid(read_study(study_file)).points]
    machine.write_text(text.replace("1 GB/s", "2 GB/s"))
    after = [p.key for p in grid(read_study(study_file)).points]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True] * 6


def test_figures_of_machines_are_axes(study_file: Path) -> None:
    axis = "machine.network.0.latency: [1 us, 2 us]"
    study_file.write_text(study_file.read_text().replace("axes:", f"axes:\n  {axis}"))
    found = grid(read_study(study_file))
    assert len(found.points) == 2 * 3 * 2 * 2
    assert len({p.key for p in found.points}) == len(found.points)
    latencies = {p.machine.machine().links.latency.max() for p in found.points}
    assert latencies == {1e-6, 2e-6}
    names = {p.parameters["machine"] for p in found.points}
    assert len(names) == 2


def test_a_figure_that_no_machine_has_is_refused_with_its_line(study_file: Path) -> None:
    axis = "machine.netwrok.0.latency: [1 us]"
    study_file.write_text(study_file.read_text().replace("axes:", f"axes:\n  {axis}"))
    with pytest.raises(ConfigError, match=r":\d+: netwrok.0.latency: there is no netwrok"):
        grid(read_study(study_file))
