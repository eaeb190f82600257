"""The schemas of `--json`: current, and what is printed is of the type that is published."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from chakrakit.commands.schemas import RESULTS, result_type, schema_text
from support.commands import chakra
from support.paths import DOCS


@pytest.mark.parametrize("command", sorted(RESULTS))
def test_schemas_are_current(command: str) -> None:
    path = DOCS / "schemas" / f"{command}.json"
    assert path.read_bytes() == schema_text(command), "run: python -m chakrakit.commands.schemas"


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "t"],
        ["info", "d"],
        ["convert", "one.et", "x.feeder.json"],
        ["export", "one.et", "x.dot"],
        ["query", "d", "SELECT name, duration_ns / 7, [1], NULL, sum(id) OVER () FROM nodes"],
    ],
    ids=lambda a: a[0],
)
def test_what_is_printed_is_of_the_type_that_is_published(
    place: Path, monkeypatch, arguments: list
) -> None:
    if arguments[0] == "query":
        pytest.importorskip("duckdb")
    monkeypatch.chdir(place)
    done = chakra(*arguments, "--json")
    kind = result_type(arguments[0])
    found = msgspec.json.decode(done.stdout, type=kind, strict=True)
    assert set(json.loads(done.stdout)) == set(kind.__struct_fields__)
    assert found.__class__ is kind
