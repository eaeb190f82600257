"""Flight recorder dumps: JSON and pickles give the same trace, bad ones one clear error, none runs code."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.flight_recorder import plain_json, read_dump
from chakrakit.sources.inputs import link
from support.recorders import dump_of, write_dumps


def test_a_pickle_says_what_the_json_says() -> None:
    dump = dump_of(3, 8, 24, seed=1)

    plain, pickled = (
        read_dump(json.dumps(dump).encode()),
        read_dump(pickle.dumps(dump, protocol=2)),
    )

    assert plain.names == pickled.names
    assert plain.groups == pickled.groups
    for name in ("created", "completed", "sequence", "state", "device_ns", "group"):
        assert np.array_equal(getattr(plain, name), getattr(pickled, name)), name


def test_every_call_is_linked_with_the_measured_times(tmp_path: Path) -> None:
    run, report = link([write_dumps(tmp_path, 8, 24)])

    assert report.groups["tp1"] == [4, 5, 6, 7]
    for rank in report.ranks:
        assert rank.device_activities.in_ == rank.device_activities.linked == 24
        assert rank.scheduled_span_ns == rank.measured_span_ns
        assert rank.edge_violations == 0
    trace = run.trace(5)
    calls = np.flatnonzero(trace.has("comm_seq"))
    first = dump_of(5, 8, 24, seed=0)["entries"][0]
    assert run.start(5)[calls[0]] + run.epoch_ns == first["time_created_ns"]
    assert trace.column("comm_size", 0)[calls[0]] == 2 * 1024


def test_ranks_that_make_the_same_calls_share_a_program(tmp_path: Path) -> None:
    run, _ = link([write_dumps(tmp_path, 16, 24)])

    assert len({run.bindings[r].body for r in run.ranks}) == 1
    assert run.bindings[9].groups == {"default_pg": "0", "mesh_tp": "tp2", "mesh_dp": "dp1"}


def test_messages_name_their_ends_as_ranks() -> None:
    dump = dump_of(6, 8, 3, seed=0)
    dump["entries"][1] |= {"profiling_name": "nccl:send 2->0", "is_p2p": True, "p2p_seq_id": 1}

    from chakrakit.sources.calls import call_trace

    calls = read_dump(json.dumps(dump).encode())
    trace = call_trace(calls, [g.name for g in calls.groups], np.zeros(0, np.int64))

    assert trace[3].get("comm_src") == 6
    assert trace[3].get("comm_dst") == 4


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"version": "2.9", "entries": [_Runs()]}, protocol=protocol)

    with pytest.raises(FormatError, match=r"asks for posix\.system"):
        plain_json(data)
    assert not (tmp_path / "pwned").exists()


def _selfish() -> bytes:
    held: list[object] = []
    held.append(held)
    return pickle.dumps(held)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pickle.dumps({"a": [1, 2, 3]})[:-4], "ends early"),
        (b"\x80\x02" + b"r" + struct.pack("<I", 2**31) + b".", "keeps a value"),
        (b"\x80\x02Nr" + struct.pack("<I", 2**31) + b".", "out of range"),
        (b"\x80\x02j" + struct.pack("<I", 7) + b".", "never kept"),
        (_selfish(), "holds itself"),
        (b"\x80\x02cbuiltins\neval\n.", "builtins.eval"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"\x80\x02\x82\x01.", "more than plain data"),
        (b"\x80\x02P0\n.", "more than plain data"),
    ],
)
def test_damaged_pickles_end_in_one_error(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        plain_json(data)


def test_values_repeated_beyond_measure_are_refused() -> None:
    value: list[object] = ["x" * 50]
    for _ in range(40):
        value = [value, value]

    with pytest.raises(FormatError, match="beyond measure"):
        plain_json(pickle.dumps(value))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"version": "3.1", "entries": []}', "version '3.1'"),
        (b'{"entries": []}', "version '\\(none\\)'"),
        (b'{"version": "2.9", "entries": [{"record_id": 1', "ends early"),
        (b'{"version": "2.9", "entries": [1]}', "cannot be read"),
        (b"[]", "cannot be read"),
    ],
)
def test_files_that_are_no_dumps_end_in_one_error(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read_dump(data, "dump")


def test_two_dumps_of_one_rank_are_refused(tmp_path: Path) -> None:
    write_dumps(tmp_path / "a", 2, 3)
    write_dumps(tmp_path / "b", 2, 3)

    with pytest.raises(FormatError, match="both say rank 0"):
        link([tmp_path])
