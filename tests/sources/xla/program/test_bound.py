"""Devices as ranks: their groups and peers, and which of them share a body."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import read, validate, write
from chakrakit.errors import FormatError
from chakrakit.sources.xla import Module, parse_hlo
from chakrakit.sources.xla.program import traces_of
from support.foreign_files import HLO

SIZE = 16 * 64 * 4


@pytest.fixture
def module() -> Module:
    return parse_hlo(HLO.encode())


def test_groups_in_iota_form_and_a_permutation_that_leaves_the_ends_out(module: Module) -> None:
    traces = traces_of(module)
    assert sorted(traces.groups.values()) == [(0, 1), (2, 3)]
    messages = traces.collectives.messages.to_pylist()
    assert {(m["src"], m["dst"], m["comm_size"]) for m in messages} == {
        (0, 1, SIZE),
        (1, 2, SIZE),
        (2, 3, SIZE),
    }
    assert traces.body_count == 3  # the first only sends, the last only receives
    assert validate(traces).ok


def test_the_traces_are_written_and_read(module: Module, tmp_path: Path) -> None:
    write(traces_of(module), tmp_path / "out")
    assert len(read(tmp_path / "out")) == 4


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda t: t.replace("HloModule", "Module"), "neither as text nor as protobuf"),
        (lambda t: t.replace("ENTRY ", ""), "no ENTRY computation"),
        (lambda t: t.replace("[2,2]<=[4]", "[2,2]<=[6]"), "do not fit each other"),
        (lambda t: t.replace("body=%body", "body=%gone"), "'gone' is called and not in the module"),
        (lambda t: t.replace("body=%body", "body=%main"), "nested too deep"),
        (lambda t: t.replace('"n":"3"', '"n":"9999999"'), "once loops are unrolled"),
    ],
)
def test_a_damaged_module_is_refused_in_words(damage: object, said: str) -> None:
    text = damage(HLO)  # type: ignore[operator]
    with pytest.raises(FormatError, match=said):
        traces_of(parse_hlo(text.encode()))


def _set(*lines, devices=4):
    text = f"HloModule m, num_partitions={devices}\n\nENTRY %main (a: f32[8]) -> f32[8] {{\n"
    text += "  %a = f32[8] parameter(0)\n  " + "\n  ".join(lines) + "\n}\n"
    return traces_of(parse_hlo(text.encode()))


def test_a_collective_without_groups_is_of_all_devices():
    traces = _set("ROOT %r = f32[8] all-reduce(%a), replica_groups={}")
    assert dict(traces.groups) == {"1": (0, 1, 2, 3)}
    assert traces.body_count == 1


def test_two_ways_to_cut_the_devices_are_two_roles():
    traces = _set(
        "%r = f32[8] all-reduce(%a), replica_groups={{0,1},{2,3}}",
        "ROOT %s = f32[8] all-reduce(%r), replica_groups={{0,2},{1,3}}",
    )
    assert dict(traces.groups) == {"1": (0, 1), "2": (2, 3), "3": (0, 2), "4": (1, 3)}
    assert traces.bindings[3].groups == {"groups_of_2": "2", "groups_of_2_2": "4"}


def test_a_ring_is_one_body_whose_peers_are_renamed():
    ring = "{{0,1},{1,2},{2,3},{3,0}}"
    traces = _set(f"ROOT %p = f32[8] collective-permute(%a), source_target_pairs={ring}")
    assert traces.body_count == 1
    messages = traces.collectives.messages.to_pylist()
    assert {(m["src"], m["dst"]) for m in messages} == {(0, 1), (1, 2), (2, 3), (3, 0)}


def test_peers_that_would_have_to_be_two_need_a_body_of_their_own():
    """Ranks 0 and 1 swap twice; rank 2 swaps with 3 and then passes around."""
    traces = _set(
        "%p = f32[8] collective-permute(%a), source_target_pairs={{0,1},{1,0},{2,3},{3,2}}",
        "ROOT %q = f32[8] collective-permute(%p), source_target_pairs={{0,1},{1,0},{2,2},{3,3}}",
    )
    assert traces.body_count == 2
    assert validate(traces).ok
