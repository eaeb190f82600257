"""Each kind of damage alone: a right result, or one clear error."""

from __future__ import annotations

import gzip
import json
import re
import shutil

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.linking import link

SET = "cnn_ddp_2"


@pytest.fixture
def pair(data, tmp_path):
    """Rank 0's pair, uncompressed, to be damaged."""
    for name in ("et_0", "kineto_0"):
        text = gzip.decompress((data / SET / f"{name}.json.gz").read_bytes())
        (tmp_path / f"{name}.json").write_bytes(text)
    return tmp_path


def _edit(path, change):
    path.write_text(change(path.read_text()))


def _rank(folder):
    return link([folder])[1].ranks[0]


def test_plain_files_link_like_compressed_ones(pair):
    rank = _rank(pair)
    assert rank.host_ops.linked == 1564
    assert rank.collectives == {"ALL_REDUCE": 1, "BROADCAST": 2}


@pytest.mark.parametrize("name", ["et_0.json", "kineto_0.json"])
def test_cut_off_in_the_middle(pair, name):
    _edit(pair / name, lambda t: t[: len(t) // 2])
    rank = _rank(pair)
    assert any("ends early" in w for w in rank.warnings)
    assert rank.edge_violations == 0


def test_unescaped_quotes(pair):
    _edit(pair / "et_0.json", lambda t: t.replace("## forward ##", '## "forward" ##'))
    rank = _rank(pair)
    assert rank.repaired["observer_unescaped"] == 1
    assert rank.host_ops.linked == 1564


@pytest.mark.first(1)
@pytest.mark.parametrize("time", ["abc", "1.2.3", None, [1], "NaN"])
def test_an_event_whose_time_is_no_number(pair, time):
    """Taken for 0 it would make the run as long as the machine has been up."""

    def damaged(text):
        events = json.loads(text)
        next(e for e in events["traceEvents"] if e.get("cat") == "cpu_op")["ts"] = time
        return json.dumps(events)

    before = _rank(pair).measured_span_ns
    _edit(pair / "kineto_0.json", damaged)
    rank = _rank(pair)
    assert rank.dropped == {"kineto_events": 1}
    assert any("a time that is not a number" in w for w in rank.warnings)
    assert rank.measured_span_ns <= before


def test_missing_profiler_step(pair):
    def without(text):
        events = json.loads(text)
        keep = [e for e in events["traceEvents"] if "ProfilerStep" not in e.get("name", "")]
        return json.dumps({**events, "traceEvents": keep})

    _edit(pair / "kineto_0.json", without)
    rank = _rank(pair)
    assert rank.steps == []
    assert rank.host_ops.linked == 1564


def test_no_record_function_ids(pair):
    """Old Kineto files have none: operators are paired by order and name, and it says so."""
    _edit(pair / "kineto_0.json", lambda t: re.sub(r'"Record function id": \d+, ', "", t))
    _edit(pair / "kineto_0.json", lambda t: re.sub(r'"External id": \d+, ?', "", t))
    rank = _rank(pair)
    assert rank.host_ops.linked == 1564
    assert "record function id" not in rank.matched_by
    assert rank.matched_by["order and name"] > 1500


def test_external_ids_where_record_function_ids_are_missing(pair):
    """They are believed because the names agree; in most files they are another counter."""
    _edit(pair / "kineto_0.json", lambda t: re.sub(r'"External id": \d+, ?', "", t))
    _edit(pair / "kineto_0.json", lambda t: t.replace('"Record function id"', '"External id"'))
    rank = _rank(pair)
    assert rank.matched_by == {"external id": 1564}


def test_relative_paths(pair, monkeypatch):
    monkeypatch.chdir(pair.parent)
    assert _rank(f"{pair.name}/et_0.json").host_ops.linked == 1564
    assert _rank(pair.name).host_ops.linked == 1564


def test_names_of_two_ranks_files_swapped(data, tmp_path):
    """What belongs together is told by the files, not by their names."""
    shutil.copytree(data / SET, tmp_path / "set")
    folder = tmp_path / "set"
    (folder / "kineto_0.json.gz").rename(folder / "x.gz")
    (folder / "kineto_1.json.gz").rename(folder / "kineto_0.json.gz")
    (folder / "x.gz").rename(folder / "kineto_1.json.gz")
    for rank in link([folder])[1].ranks:
        assert rank.matched_by == {"record function id": rank.host_ops.in_}


def test_one_ranks_observer_with_anothers_kineto_is_refused(data):
    folder = data / SET
    with pytest.raises(FormatError, match="not of the same rank and run"):
        link([folder / "et_0.json.gz", folder / "kineto_1.json.gz"])


def test_a_group_of_unknown_name_does_not_abort(recording, tmp_path):
    recording.device = "cpu"
    recording.op("c10d::frobnicate_", 0, 10, reads=(1,))
    recording.op("gloo:frobnicate", 2, 30, reads=(1,))
    recording.write(tmp_path)
    run, report = link([tmp_path])
    assert list(report.ranks[0].collectives.values()) == [1]
    assert "comm_name" in run.trace(0).nodes.column_names
