"""Which format a file has."""

from __future__ import annotations

import gzip
import json

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ConfigError
from chakrakit.views import timeline_format


def test_the_command_chooses_by_name(two_ranks, tmp_path, capfd, trace_class):
    ck.write(two_ranks, tmp_path / "run")
    run = str(tmp_path / "run")
    main(["export", run, str(tmp_path / "a.pftrace.gz")], standalone_mode=False)
    main(["export", run, str(tmp_path / "b.json"), "--no-flows"], standalone_mode=False)
    main(["export", run, str(tmp_path / "c"), "--perfetto"], standalone_mode=False)
    assert "6 slices" in capfd.readouterr().err
    packed = gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes())
    assert packed == (tmp_path / "c").read_bytes()
    assert len(trace_class.FromString(packed).packet) > 12
    json.loads((tmp_path / "b.json").read_text())


@pytest.mark.parametrize(
    ("path", "flags", "expected"),
    [
        ("a.pftrace", {}, "perfetto"),
        ("a.pftrace.gz", {}, "perfetto"),
        ("a.json", {}, "chrome"),
        ("a.json.gz", {}, "chrome"),
        ("a.json", {"perfetto": True}, "perfetto"),
        ("a", {"chrome": True}, "chrome"),
        ("a.et", {}, None),
    ],
)
def test_a_format_by_name_unless_it_is_said(path, flags, expected):
    assert timeline_format(path, **flags) == expected


def test_one_format_at_a_time():
    with pytest.raises(ConfigError, match="one of --perfetto and --chrome"):
        timeline_format("a", perfetto=True, chrome=True)
