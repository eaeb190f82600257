"""`chakra study` and `chakra studies`."""

from __future__ import annotations

import json

import pytest

from support.commands import chakra


def test_the_list_has_every_study_and_says_why_others_have_none():
    lines = json.loads(chakra("studies", "--json").stdout)
    by_id = {line["id"]: line for line in lines}
    keys = {"id", "system", "family", "claim", "verdict", "comparator", "figures", "commit"}
    assert keys <= set(lines[0])
    assert by_id["B02"]["verdict"] == "holds"
    low, high = by_id["B02"]["figures"]["gain"]
    assert low < 5.1 < 6.8 < high
    assert by_id["A12"]["verdict"] == "no study"
    assert "theorem" in by_id["A12"]["why"][0]


def test_the_list_of_one_family():
    done = chakra("studies", "--family", "communication")
    assert "Mixed-precision CA-SGD" in done.stdout
    assert "Coral" not in done.stdout


def test_an_unknown_family_or_study_is_refused_with_those_there_are():
    assert "there are " in chakra("studies", "--family", "cooking").stderr
    assert "did you mean 'B22' or 'B02'" in chakra("study", "B022").stderr


@pytest.mark.slow
def test_a_study_writes_its_table_page_and_chart(tmp_path):
    done = chakra("study", "A71", "--quick", "-o", tmp_path / "out")
    assert "A71 Coral: does not hold" in done.stdout
    names = {f.name for f in (tmp_path / "out").iterdir()}
    assert names == {"points.jsonl", "table.parquet", "A71.md", "A71.svg"}
