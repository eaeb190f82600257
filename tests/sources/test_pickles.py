"""Pickles read as data: damaged ones end in one error, and none runs code."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.calls import plain_json


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
