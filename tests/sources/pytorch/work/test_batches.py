"""Names of serving steps: what was in the batch."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.attribution import Batch, BatchShare, read_batch


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        (
            "execute_615_context_2(sq612sk868sqsq272144sqsk297744)_generation_3(sq3sk3500sqsq3sqsk3500)",
            Batch(615, BatchShare(2, 612, 868, 272144, 297744), BatchShare(3, 3, 3500, 3, 3500)),
        ),
        (
            "execute_context_1(100)_generation_7(7)",
            Batch(107, BatchShare(1, 100), BatchShare(7, 7)),
        ),
        (
            "execute_context_1(888_788544)_generation_0(0)",
            Batch(888, BatchShare(1, 888, squared=788544), BatchShare(0, 0)),
        ),
        ("step[DECODE bs=32]", Batch(32, BatchShare(), BatchShare(32, 32))),
        ("step[EXTEND bs=4 toks=900]", Batch(900, BatchShare(4, 900), BatchShare())),
        ("ProfilerStep#3", None),
    ],
)
def test_a_steps_name_tells_its_batch(name: str, batch: Batch | None) -> None:
    assert read_batch(name) == batch


def test_unknown_sums_are_left_out_of_the_columns() -> None:
    batch = read_batch("step[DECODE bs=8]")
    assert batch is not None
    assert batch.columns() == {
        "batch_tokens": 8,
        "context_requests": 0,
        "context_q": 0,
        "generation_requests": 8,
        "generation_q": 8,
    }
