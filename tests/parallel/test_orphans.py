"""A child ends with its parent: Linux is asked to signal it, and elsewhere it looks itself."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from chakrakit.parallel import local as orphans


def test_linux_is_asked_for_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(orphans, "_CONTROL", lambda *words: asked.append(words) or 0)
    monkeypatch.setattr(orphans, "watch_parent", lambda _parent: asked.append((0, 0)))
    orphans.end_with_parent(signal.SIGTERM)
    assert asked == [(1, signal.SIGTERM)]  # PR_SET_PDEATHSIG, and nobody has to watch


@pytest.mark.parametrize("control", [None, lambda *_words: -1])
def test_where_nobody_signals_the_parent_is_watched(
    monkeypatch: pytest.MonkeyPatch, control: object
) -> None:
    watched: list[int] = []
    monkeypatch.setattr(orphans, "_CONTROL", control)
    monkeypatch.setattr(orphans, "watch_parent", watched.append)
    orphans.end_with_parent()
    assert watched == [os.getppid()]


def test_a_parent_that_is_gone_already_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, codes = threading.Event(), []
    monkeypatch.setattr(orphans.os, "getppid", lambda: 1)  # as after the parent's end
    monkeypatch.setattr(orphans.os, "_exit", lambda code: (codes.append(code), ended.set()))
    orphans.watch_parent(4321)
    assert ended.wait(30)
    assert codes == [1]
