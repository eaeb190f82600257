"""The public face is pinned, and importing it costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import chakrakit

NAMES = [
    "Binding",
    "Card",
    "CollectiveType",
    "EdgeForm",
    "EdgeKind",
    "Edges",
    "Feeder",
    "Graph",
    "Groups",
    "Member",
    "Metadata",
    "Node",
    "NodeType",
    "Run",
    "Schedule",
    "Times",
    "Trace",
    "TraceBuilder",
    "TraceSet",
    "ValidationReport",
    "__version__",
    "analyze",
    "collect",
    "compare",
    "feeder_paths",
    "link",
    "open_writer",
    "query",
    "read",
    "scan_trace",
    "schedule",
    "validate",
    "write",
]


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(chakrakit.__all__) == NAMES
    assert dir(chakrakit) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_imported(name: str) -> None:
    assert getattr(chakrakit, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = chakrakit.nothing


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = {"numpy", "pyarrow", "msgspec", "click", "chakrakit.core"}
    code = f"import sys, chakrakit; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
