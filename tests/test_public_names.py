"""The public face is pinned, importing it costs nothing, and its examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chakrakit
from chakrakit.commands import COMMANDS
from support.stub import STUB, stub_text

NAMES = [
    "Analysis",
    "Anonymize",
    "AstraSimulation",
    "AttentionWork",
    "Binding",
    "Cache",
    "Card",
    "ChakraError",
    "CollectiveType",
    "Comm",
    "Compact",
    "Comparison",
    "ConfigError",
    "DeadlockError",
    "EdgeForm",
    "EdgeKind",
    "Edges",
    "Edit",
    "Feeder",
    "FormatError",
    "FoundPlan",
    "FoundScript",
    "FoundService",
    "GeneratedTraces",
    "GnnGraph",
    "GnnStep",
    "Graph",
    "Groups",
    "LinkedRun",
    "Machine",
    "Member",
    "Metadata",
    "MissingExtra",
    "Node",
    "NodeType",
    "Offload",
    "Pass",
    "Picture",
    "Plan",
    "Portable",
    "QueryResult",
    "Recost",
    "Run",
    "ScaleRanks",
    "Schedule",
    "Section",
    "SectionGraph",
    "Select",
    "Simulation",
    "SimulationOptions",
    "SpatialPlan",
    "Step",
    "Steps",
    "Storage",
    "Times",
    "Trace",
    "TraceBuilder",
    "TraceError",
    "TraceSet",
    "TransformedTraces",
    "Units",
    "ValidationReport",
    "Workers",
    "Workload",
    "__version__",
    "analyze",
    "bundle",
    "calibrate",
    "campaign",
    "capture",
    "capture_jax",
    "collect",
    "collective",
    "compare",
    "conformance",
    "convert",
    "counted",
    "export",
    "feeder_paths",
    "generate",
    "generate_attention",
    "generate_gnn",
    "generate_spatial",
    "get",
    "info",
    "link",
    "list_machines",
    "list_passes",
    "load_machine",
    "machine",
    "models",
    "open_writer",
    "plot",
    "query",
    "read",
    "read_algorithm",
    "replay",
    "report",
    "run_program",
    "scan_trace",
    "schedule",
    "score",
    "search",
    "serve",
    "simulate",
    "simulate_jobs",
    "steps",
    "studies",
    "study",
    "sweep",
    "transform",
    "validate",
    "view",
    "write",
]
"""Published names go on working; a new one is added here."""
COVERED = {
    "machines": "list_machines",
    "live": "run_program",
    "demo": None,
    "mcp": None,
    "completion": None,
}
"""Commands whose function has another name; the demo is a list of commands, the others are for programs."""


@pytest.mark.parametrize("name", chakrakit.__all__)
def test_each_can_be_imported(name: str) -> None:
    assert getattr(chakrakit, name) is not None


def test_no_public_name_comes_or_goes_unnoticed() -> None:
    assert sorted(chakrakit.__all__) == dir(chakrakit) == NAMES


def test_type_checkers_read_the_same_names() -> None:
    assert STUB.read_text() == stub_text(), "run: make stubs"


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = chakrakit.nothing


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = {"numpy", "pyarrow", "msgspec", "click", "chakrakit.core"}
    code = f"import sys, chakrakit; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_function(command: str) -> None:
    name = COVERED.get(command, command)
    if name is not None:
        assert callable(getattr(chakrakit, name))


def test_functions_stay_callable_after_any_room_was_imported() -> None:
    pytest.importorskip("torch", reason="some rooms need it")
    for found in pkgutil.walk_packages(chakrakit.__path__, "chakrakit."):
        if found.ispkg:
            importlib.import_module(found.name)
    wrong = [n for n in chakrakit.__all__ if inspect.ismodule(getattr(chakrakit, n))]
    assert wrong == []


FUNCTIONS = [n for n in chakrakit.__all__ if inspect.isfunction(getattr(chakrakit, n))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_says_what_it_does(name: str) -> None:
    text = inspect.getdoc(getattr(chakrakit, name)) or ""
    assert "Parameters\n---" in text or not inspect.signature(getattr(chakrakit, name)).parameters
    assert "Examples\n---" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_examples_of_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function: Any = getattr(chakrakit, name)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for case in finder.find(function, name, globs={"ck": chakrakit}):
        assert runner.run(case).failed == 0


def test_objects_that_hold_arrays_are_shown_in_a_line() -> None:
    """A repr of a thousand nodes is no longer than one of three."""
    t = chakrakit.TraceBuilder()
    last = t.comp("first", duration_ns=5)
    for number in range(1000):
        last = t.comp(f"op {number}", duration_ns=5, deps=[last])
    trace = t.build()
    traces = chakrakit.TraceSet([trace] * 2)
    run = chakrakit.simulate(traces, "dgx-h100", compute="measured").run()
    plan = chakrakit.schedule(len(trace), trace.edges, trace.duration_ns)
    shown = [trace, trace.edges, trace.graph, traces, traces.collectives, run, *run.times, plan]
    shown += [chakrakit.load_machine("dgx-h100:4"), traces.groups]
    assert [repr(o) for o in shown if len(repr(o)) > 100] == []
    assert repr(plan) == "Schedule(1,001 rows in 5,005 ns)"
    assert repr(trace.edges) == "Edges(1,000: 1,000 data)"
