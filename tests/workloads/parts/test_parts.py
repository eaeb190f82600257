"""Parts alone from files: the command line makes what Python makes."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError

FILES = {
    "attention": "attention: {documents: [4096, 512], ranks: 4, assignment: mixed, work: {backward: true}}",
    "spatial": "spatial: {network: mobilenet-v2, plan: {rows: 2, columns: 2}}",
    "gnn": "gnn: {graph: {vertices: 1000, degree: 8, partitions: 4}}",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_gives_traces_and_figures(kind: str, tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text(FILES[kind])
    made = ck.generate(tmp_path / "part.yaml", output=tmp_path / "out")
    read = ck.read(tmp_path / "out")
    assert len(read.ranks) == made.figures.ranks == len(made.traces)
    assert made.figures.flops_total > 0
    assert read.card.settings[kind]


def test_attention_is_what_the_function_gives(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text("attention: {documents: [4096, 512], ranks: 4}")
    mine = ck.generate(tmp_path / "part.yaml").traces
    theirs = ck.generate_attention([4096, 512], ranks=4)
    for rank in theirs.ranks:
        assert mine.trace(rank).nodes.equals(theirs.trace(rank).nodes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("attention: {documents: [4096], rank: 4}", "no field 'rank'"),
        ("attention: {documents: [4096], ranks: 4, assignment: best}", "no assignment 'best'"),
        ("gnn: {graph: {vertices: 1000, degrees: 8}}", "degrees"),
        ("spatial: {network: vgg16}\nmodel: gpt3-125m", "stands alone"),
        ("spatial: 3", "its fields"),
    ],
)
def test_mistakes_are_named(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        len(ck.generate(tmp_path / "part.yaml").traces)
