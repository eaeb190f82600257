"""A plugin of pytest (`-p support.entered`) for mutation runs: what each test enters, and a choice of tests.

With `--entered FILE` every test adds a line of JSON to the file: its name, whether it passed, its seconds,
and the functions of the package that it entered, or that one of its fixtures did for whichever test. With
`--chosen FILE` only the tests that are named there, one to a line, are run.
"""

from __future__ import annotations

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

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.codes, self.seconds, self.passed = set(), 0.0, True
        threading.settrace(self._note)
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            fixtures = chain.from_iterable(item._fixtureinfo.name2fixturedefs.values())
            names = self._names(self.codes).union(*(self.of_fixtures[f] for f in fixtures))
            line = [item.nodeid, self.passed, round(self.seconds, 4), sorted(names)]
            print(json.dumps(line), file=self.file, flush=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        outer, self.codes = self.codes, set()
        try:
            return (yield)
        finally:
            self.of_fixtures[fixturedef] |= self._names(self.codes)
            self.codes |= outer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.passed &= not report.failed

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self.codes.add(frame.f_code)

    def _names(self, codes: set[CodeType]) -> set[str]:
        """`file:line` of those in the package, the file as seen from it."""
        codes = codes.copy()  # This very function is noted as well.
        for code in codes - self.names.keys():
            _, inside, file = code.co_filename.rpartition(PACKAGE)
            self.names[code] = f"{file}:{code.co_firstlineno}" if inside else ""
        return {self.names[code] for code in codes} - {""}
