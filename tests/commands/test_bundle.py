"""`chakra bundle`: made, checked, unpacked, damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit import read, write
from support.commands import chakra


def test_bundle_makes_checks_and_extracts(place: Path) -> None:
    out = place / "b.chakra"
    (place / "card.yaml").write_text("description: small\n")
    made = chakra(
        "bundle",
        place / "d",
        "-o",
        out,
        "--card",
        place / "card.yaml",
        "--field",
        "contact=me",
        "--add",
        place / "card.yaml",
        "--json",
    )
    assert made.exit_code == 0
    assert json.loads(made.stdout)["card"]["description"] == "small"
    checked = chakra("bundle", out, "--check", "--json")
    assert json.loads(checked.stdout) == json.loads(made.stdout)
    assert chakra("info", out).stdout == chakra("info", place / "d").stdout
    assert chakra("bundle", out, "--extract", place / "x").exit_code == 0
    assert (place / "x" / "files" / "card.yaml").exists()


def test_a_damaged_bundle_exits_1_and_names_the_file(place: Path) -> None:
    write(read(place / "d"), place / "b.chakra")
    data = (place / "b.chakra").read_bytes()
    (place / "b.chakra").write_bytes(data.replace(b"total_count", b"total_kount", 1))
    done = chakra("bundle", place / "b.chakra", "--check")
    assert done.exit_code == 1
    assert "card.json: is not what the bundle's list says" in done.stdout
    used = chakra("info", place / "b.chakra")
    assert used.exit_code == 2
    assert "card.json" in used.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--check", "--extract", "x"), ("--check", "--field", "a=1"), ("-o", "x", "--check")],
)
def test_bundle_wants_to_know_what_to_do(place: Path, arguments: tuple[str, ...]) -> None:
    assert chakra("bundle", place / "d", *arguments).exit_code == 2


def test_traces_are_packed_and_paths_are_checked(traces: ck.TraceSet, tmp_path: Path) -> None:
    packed = ck.bundle(traces, tmp_path / "w.chakra", fields=["description=small"])
    assert packed.ok
    assert ck.bundle(tmp_path / "w.chakra", extract=tmp_path / "w").card == packed.card
    with pytest.raises(ck.ConfigError, match="give `output` to pack traces"):
        ck.bundle(traces)
