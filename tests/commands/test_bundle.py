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


WRONG_CARD = b'{"extra": {"workload": {"collection": 7}}}'
"""Of traces that carry a workload's card with a number where a section should be."""


@pytest.mark.parametrize(
    ("name", "content"), [("ranks.parquet", b"PAR1 nothing PAR1"), ("card.json", WRONG_CARD)]
)
def test_what_no_command_could_open_does_not_pass_the_check(tmp_path, name, content):
    """Checksums that are right over a file that is not what it should be."""
    import hashlib
    import json
    import zipfile

    import chakrakit as ck
    from support.commands import chakra

    whole, bent = tmp_path / "run.chakra", tmp_path / "bent.chakra"
    made = ck.generate(model="gpt3-125m", layers=1, dp=2, seq=16, global_batch=2).traces
    ck.bundle(ck.simulate(made, "dgx-h100", compute="roofline").run(), whole)
    with zipfile.ZipFile(whole) as archive:
        files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    files[name] = content
    said = json.loads(files["bundle.json"])
    for member in said["members"]:
        data = files[member["name"]]
        member |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    files["bundle.json"] = json.dumps(said).encode()
    with zipfile.ZipFile(bent, "w") as archive:
        for entry in files.items():
            archive.writestr(*entry)
    assert chakra("bundle", whole, "--check").exit_code == 0
    done = chakra("bundle", bent, "--check")
    assert done.exit_code == 1
    assert "cannot be opened" in done.stdout
