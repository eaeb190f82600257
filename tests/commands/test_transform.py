"""`chakra transform`: passes from the command line and from YAML."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import chakrakit as ck
from chakrakit import TraceBuilder, TraceSet
from chakrakit.commands import main
from chakrakit.commands.schemas import result_type
from chakrakit.trace.storage import read, write


def chakra(*arguments):
    """The command's exit code, output and errors."""
    from chakrakit.commands import group

    return CliRunner().invoke(group, [str(a) for a in arguments])


@pytest.fixture
def place(tmp_path):
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1000, phase="forward", stream=1)
    t.comp("b", duration_ns=2000, phase="backward", stream=1, deps=[a])
    write(TraceSet([t.build()] * 2), tmp_path / "in")
    return tmp_path


def test_passes_are_applied_in_order_and_noted(place):
    yaml = place / "passes.yaml"
    yaml.write_text("- edit: {scale: 3, phases: forward}\n- compact\n")
    done = chakra(
        "transform",
        place / "in",
        "--passes",
        yaml,
        "--pass",
        "select{ranks=1}",
        "-o",
        place / "out",
        "--json",
    )
    assert done.exit_code == 0, done.output
    found = msgspec.json.decode(done.stdout, type=result_type("transform"), strict=True)
    assert found.card_passes == [
        "edit{scale=3.0, phases=[forward]}",
        "compact",
        "select{ranks=[1]}",
    ]
    assert (found.before.ranks, found.after.ranks, found.after.nodes) == (2, 1, 2)
    assert found.applied[0].notes["classes"][0]["ratio"] == pytest.approx(5 / 3, abs=1e-4)
    after = read(place / "out")
    assert after.ranks == (1,)
    assert after.trace(1).own_ns.tolist() == [3000, 2000]
    assert after.card.passes == found.card_passes


def test_what_is_printed_for_people(place):
    done = chakra("transform", place / "in", "--pass", "edit{scale=2}", "-o", place / "out.N.et")
    assert done.exit_code == 0, done.output
    assert "edit{scale=2.0}" in done.stdout
    assert "class  nodes  before_ns  after_ns" in done.stdout
    assert sorted(p.name for p in place.glob("out.*")) == ["out.0.et", "out.1.et"]


def test_the_list_has_every_pass_with_its_fields(place):
    done = chakra("transform", "--list", "--json")
    found = msgspec.json.decode(done.stdout, type=result_type("transform-list"), strict=True)
    by_name = {one.name: one for one in found.passes}
    assert {"select", "compact", "scale-ranks", "recost", "edit"} <= set(by_name)
    assert by_name["scale-ranks"].fields["ranks"] == "int"
    assert by_name["edit"].fields["scale"] == "float = 1.0"
    assert "preserves:" in chakra("transform", "--list").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["in", "--pass", "edti{scale=2}", "-o", "x"], "no pass 'edti'; did you mean 'edit'?"),
        (
            ["in", "--pass", "edit{scal=2}", "-o", "x"],
            "edit has no field 'scal'; did you mean 'scale'?",
        ),
        (["in", "--pass", "edit{scale=fast}", "-o", "x"], "scale"),
        (["in", "--pass", "scale-ranks", "-o", "x"], "missing required field `ranks`"),
        (["in", "--pass", "scale-ranks{ranks=8}", "-o", "x"], "no group is data parallel"),
        (["in", "--pass", "compact"], "-o OUT"),
        (["in", "-o", "x"], "at least one --pass"),
        (["in", "--passes", "absent.yaml", "-o", "x"], "absent.yaml"),
        (["absent", "--pass", "compact", "-o", "x"], "absent"),
    ],
)
def test_mistakes_are_two_lines_and_nothing_is_written(place, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as exit:
        main(["transform", *arguments])
    assert exit.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) <= 2
    assert not Path("x").exists()


def test_the_json_is_what_the_schema_says(place):
    done = chakra("transform", place / "in", "--pass", "compact", "-o", place / "out", "--json")
    assert set(json.loads(done.stdout)) == set(result_type("transform").__struct_fields__)


def test_passes_are_objects_words_or_a_file(traces: ck.TraceSet, tmp_path: Path) -> None:
    (tmp_path / "passes.yaml").write_text("- edit: {scale: 2}\n")
    done = ck.transform(
        traces, [ck.Edit(scale=0.5), "select{ranks=[1]}"], file=tmp_path / "passes.yaml"
    )
    assert [one.spec.partition("{")[0] for one in done.report.applied] == ["edit", "edit", "select"]
    assert done.traces.trace(1).duration_ns.tolist() == [1500, 500]
    with pytest.raises(ck.ConfigError, match="no pass is given"):
        ck.transform(traces)
