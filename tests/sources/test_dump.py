"""Flight recorder dumps: JSON and pickles say the same; what is no dump is one clear error."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.calls import read_dump
from support.recorders import dump_of


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


def _configured(ranks: object) -> bytes:
    config = {"0": {"name": "0", "ranks": ranks}}
    return json.dumps({"version": "2.9", "entries": [], "pg_config": config}).encode()


@pytest.mark.parametrize(
    ("ranks", "members"),
    [("[0, 1]", (0, 1)), ([0, 1], (0, 1)), (["2", 3], (2, 3)), ("", ()), (None, ())],
)
def test_members_are_written_as_a_text_or_as_a_list(
    ranks: object, members: tuple[int, ...]
) -> None:
    assert read_dump(_configured(ranks)).groups[0].ranks == members


@pytest.mark.parametrize("ranks", ["[0, -1]", [0, -1], [0, "x"], [0, 1 << 70], [0, None]])
def test_a_member_that_is_no_rank_is_refused(ranks: object) -> None:
    with pytest.raises(FormatError, match=r"process group '0' lists .*, which is not a rank"):
        read_dump(_configured(ranks))
