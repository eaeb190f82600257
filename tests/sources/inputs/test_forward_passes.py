"""Dynamo's forward passes become steps with their batches, a rank for each data-parallel rank."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from support.commands import data
from support.foreign_files import forward_pass


def written(folder: Path, lines: list[str], name: str = "dynamo-fpm.41.0.jsonl.gz") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_passes_are_steps_with_their_batches_and_times(tmp_path: Path) -> None:
    """Two ranks of three passes: 10 ms each, seen when they had ended."""
    lines = [
        forward_pass(f"w{rank}", rank, 7 + i, 10.0 * (i + 1), prompts=2 * (i == 0))
        for i in range(3)
        for rank in (0, 1)
    ]
    path = written(tmp_path, lines)
    run, report = ck.link(path)
    assert len(run) == 2
    assert run.makespan_ns == 30_000_000
    assert [r.measured_span_ns for r in report.ranks] == [30_000_000] * 2
    rows = ck.query(
        run,
        "SELECT batch_tokens, context_requests, context_q, context_k, generation_requests, generation_k "
        "FROM nodes WHERE batch_tokens IS NOT NULL AND rank = 0 ORDER BY start_ns",
    ).rows
    assert [tuple(row) for row in rows] == [
        (259, 2, 256, 320, 3, 1024),
        (3, 0, 0, 0, 3, 1024),
        (3, 0, 0, 0, 3, 1024),
    ]
    assert data("analyze", path)["steps"]["found"] == "marked"
    assert ck.validate(run).ok


def test_what_was_not_written_is_said_first(tmp_path: Path) -> None:
    """A sampled recording keeps one pass of many: the counter tells how many are missing."""
    lines = [forward_pass("w", 0, number, 10.0 * number) for number in (1, 5, 6)]
    idle = forward_pass("w", 0, 7, 99.0, decoding=0)
    run, report = ck.link(written(tmp_path, [*lines, idle, ""]))
    assert report.recording is not None
    assert report.recording.unwritten_steps == 3
    assert "3 steps between the recorded ones were not written" in report.warning
    assert report.ranks[0].left_out_events["records with nothing scheduled"] == 1
    assert "3 steps between" in json.dumps(data("analyze", written(tmp_path, lines)))
    assert run.makespan_ns == 60_000_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not a forward pass"),
        (forward_pass("w", 0, 2, 20.0).replace("0.01", "-1"), "line 2: a pass of -1 s"),
        (forward_pass("w", 0, 2, 20.0, decoding=-4), "the file is damaged"),
        (forward_pass("w", 0, 2, 20.0).replace("1782777600020.0", '"nan"'), "seen at nan ms"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ChakraError, match=said):
        ck.link(written(tmp_path, [forward_pass("w", 0, 1, 10.0), line]))
