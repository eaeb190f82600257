"""What a file is, told by its first bytes and never by its name."""

from __future__ import annotations

import gzip
import json
import pickle

import pytest

from chakrakit.sources.inputs import RecordingKind, recognise
from support.recorders import dump_of

DUMP = dump_of(0, 4, 3, seed=0)
SNAPSHOT = {"segments": [{"total_size": 512}], "device_traces": [[]]}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"schema": "1.1.1", "pid": 4, "nodes": []}', RecordingKind.PYTORCH),
        (b'{"schemaVersion": 1, "traceEvents": []}', RecordingKind.PYTORCH),
        (b"SQLite format 3\0rest", RecordingKind.NSYS),
        (json.dumps(DUMP).encode(), RecordingKind.FLIGHT_RECORDER),
        (pickle.dumps(DUMP, protocol=2), RecordingKind.FLIGHT_RECORDER),
        (pickle.dumps(SNAPSHOT, protocol=2), RecordingKind.SNAPSHOT),
        (b"HloModule jit_f\n\nENTRY main {\n}\n", RecordingKind.HLO),
        (b"hello", None),
        (b"", None),
        (b'{"a": 1}', None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_what_its_first_bytes_say_plain_or_gzipped(tmp_path, data, kind, packed):
    path = tmp_path / "anything.txt"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert recognise(path).format == kind


def test_kineto_lists_process_groups_too_and_is_no_dump(tmp_path):
    said = {"schemaVersion": 1, "distributedInfo": {"pg_config": []}, "traceEvents": []}
    (tmp_path / "k.json").write_text(json.dumps(said))
    assert recognise(tmp_path / "k.json").format == RecordingKind.PYTORCH


def test_a_file_that_only_looks_gzipped_is_nothing(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8bnot really")
    assert recognise(tmp_path / "a.gz").format is None
