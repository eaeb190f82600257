"""Runs behind paths, opened for the app."""

from __future__ import annotations

import socket

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.views.app import open_session, serve
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun


def test_traces_without_times_are_scheduled_and_say_so(tmp_path):
    t = ck.TraceBuilder()
    a = t.comp("a", num_ops=5)
    t.comp("b", num_ops=5, deps=[a])
    ck.write(ck.TraceSet([t.build()]), tmp_path / "bare")
    (side,) = open_session([str(tmp_path / "bare")]).sides
    assert "no times" in side.notes[0]
    assert side.lines(0).span == (0, 2_000)


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path, two_ranks):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        ck.write(two_ranks, path)
    assert [side.name for side in open_session(paths).sides] == ["a", "b"]
    two_ranks.card = two_ranks.card.replace(name="llama")
    for path in paths:
        ck.write(two_ranks, path)
    assert [side.name for side in open_session(paths).sides] == ["a", "b"]
    twice = [paths[0], f"{tmp_path}/./a"]
    assert [side.name for side in open_session(twice).sides] == twice
    assert [side.name for side in open_session(paths[:1]).sides] == ["llama"]


def test_ranks_that_groups_name_and_nobody_recorded_are_counted(tmp_path, two_ranks):
    ck.write(two_ranks.select_ranks([0]), tmp_path / "part")
    (side,) = open_session([str(tmp_path / "part")]).sides
    assert side.notes == ["1 ranks that groups name were not recorded."]


def test_a_port_that_is_taken_is_refused_where_it_was_asked_for(two_ranks):
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} cannot be used .* choose another"):
            serve(AppSession([ShownRun(two_ranks, "run", [])]), port, False, print)
