"""Scripts of `packaging/`, imported by file."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from support.paths import ROOT


def script(name: str) -> ModuleType:
    """`packaging/NAME.py` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
