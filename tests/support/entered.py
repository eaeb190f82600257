"""A plugin of pytest (`-p support.entered`) for mutation runs: what each test enters, and a choice of tests.

With `--entered FILE` every test adds a line of JSON to the file: its name, whether it passed, its seconds,
and the functions of the package that it entered, or that one of its fixtures did for whichever test. With
`--chosen FILE` only the tests that are named there, one to a line, are run.
"""

from __future__ import annotations

import _lsprof
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

PACKAGE = "/chakrakit/"
"""The part of a file's path that says that it is the package's, wherever its copy is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--entered", type=Path, help="write what each test entered to this file")
    parser.addoption("--chosen", type=Path, help="run the tests alone that this file names")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.entered:
        config.pluginmanager.register(Recorder(config.option.entered))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.chosen:
        chosen = set(config.option.chosen.read_text().splitlines())
        items[:] = [item for item in items if item.nodeid in chosen]


class Recorder:
    """Notes which functions are entered while a test or a fixture runs."""

    def __init__(self, file: Path) -> None:
        self.file = file.open("a")
        self.codes: set[CodeType] = set()
        self.of_fixtures: dict[object, set[str]] = defaultdict(set)
        self.names: dict[CodeType, str] = {}
        self.seconds = 0.0
        self.passed = True
        self.watch = _Monitoring() if hasattr(sys, "monitoring") else _Profiling()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.codes, self.seconds, self.passed = set(), 0.0, True
        self.watch.begin()
        try:
            return (yield)
        finally:
            self.watch.end()
            self.codes |= self.watch.taken()
            fixtures = chain.from_iterable(item._fixtureinfo.name2fixturedefs.values())
            names = self._names(self.codes).union(*(self.of_fixtures[f] for f in fixtures))
            line = [item.nodeid, self.passed, round(self.seconds, 4), sorted(names)]
            print(json.dumps(line), file=self.file, flush=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        outer, self.codes = self.codes | self.watch.taken(), set()
        try:
            return (yield)
        finally:
            self.codes |= self.watch.taken()
            self.of_fixtures[fixturedef] |= self._names(self.codes)
            self.codes |= outer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.passed &= not report.failed

    def _names(self, codes: set[CodeType]) -> set[str]:
        """`file:line` of those in the package, the file as seen from it."""
        for code in codes - self.names.keys():
            _, inside, file = code.co_filename.rpartition(PACKAGE)
            self.names[code] = f"{file}:{code.co_firstlineno}" if inside else ""
        return {self.names[code] for code in codes} - {""}


class _Profiling:
    """Of Python before 3.12: the profiler counts calls, in a tenth of the tests' time; threads are traced."""

    def __init__(self) -> None:
        self.profiler: Any = _lsprof.Profiler(builtins=False, subcalls=False)
        self.of_threads: set[CodeType] = set()

    def begin(self) -> None:
        threading.settrace(self._note)
        self.profiler.enable(builtins=False, subcalls=False)

    def taken(self) -> set[CodeType]:
        """What was entered since this was asked last."""
        codes = {entry.code for entry in self.profiler.getstats()} | self.of_threads
        self.profiler.clear()
        self.of_threads = set()
        return codes

    def end(self) -> None:
        self.profiler.disable()
        threading.settrace(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self.of_threads.add(frame.f_code)


class _Monitoring:
    """Of Python 3.12 and later: only the first call of a function is noted."""

    TOOL = 4
    """One of the two numbers that Python leaves to anybody; hypothesis takes 3."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        self.monitoring.use_tool_id(self.TOOL, "entered")
        self.monitoring.register_callback(self.TOOL, self.monitoring.events.PY_START, self._note)

    def begin(self) -> None:
        self.monitoring.set_events(self.TOOL, self.monitoring.events.PY_START)
        self.monitoring.restart_events()

    def taken(self) -> set[CodeType]:
        """What was entered since this was asked last."""
        codes, self.codes = self.codes, set()
        self.monitoring.restart_events()
        return codes

    def end(self) -> None:
        self.monitoring.set_events(self.TOOL, 0)

    def _note(self, code: CodeType, offset: int) -> Any:
        self.codes.add(code)
        return self.monitoring.DISABLE
