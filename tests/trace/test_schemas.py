"""The schemas of counters: every series can be drawn, with a unit and a time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chakrakit.trace.sets import SCHEMAS
from chakrakit.trace.sets.counters import Column, CounterSchema
from support.paths import DOCS

SERIES = [s for s in SCHEMAS.values() if s.value]


@pytest.mark.parametrize("schema", SERIES, ids=lambda s: s.name)
def test_a_series_begins_with_rank_and_time_and_ends_with_what_is_drawn(
    schema: CounterSchema,
) -> None:
    names = [c.name for c in schema.columns]
    label = [schema.label] if schema.label else []
    assert names == ["rank", "time_ns", *label, schema.value]
    assert schema.unit


def test_the_unit_is_that_of_the_drawn_column() -> None:
    columns = (Column("rank", pa.int64(), "ranks"), Column("heat", pa.float64(), "K"))
    assert CounterSchema("heat", "how warm", columns, "heat").unit == "K"
    assert CounterSchema("heat", "how warm", columns).unit == ""  # no series: nothing is drawn


def test_the_page_about_counters_lists_every_one_with_its_columns() -> None:
    page = (DOCS / "simulator.md").read_text()
    for schema in SCHEMAS.values():
        assert f"| `{schema.name}` | {', '.join(c.name for c in schema.columns)} |" in page
