"""Parts of programs that files name, as `FILE.py:NAME`; they run only where that is allowed."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from chakrakit.errors import ConfigError


def is_program(text: str) -> bool:
    """Whether a text names a part of a program."""
    return text.rpartition(":")[0].endswith(".py")


def part_of_program(text: str, folder: str | Path, allowed: bool, what: str) -> Any:
    """What `FILE.py:NAME` names; the file is looked for beside the one that names it, and is run."""
    file, _, name = text.rpartition(":")
    if not is_program(text) or not name.isidentifier():
        raise ConfigError(f"{what} {text!r}: should look like FILE.py:NAME")
    if not allowed:
        raise ConfigError(
            f"{what} {text!r} is a program, which would run; if it may, give --allow-programs "
            "(allow_programs=True in Python)"
        )
    path = Path(folder) / file
    part = getattr(run_file(path, f"{what} {text!r}"), name, None)
    if part is None:
        raise ConfigError(f"{what} {text!r}: {path} has no {name}")
    return part


_RUN: set[str] = set()
"""Files that were run."""


def place_in_program(error: BaseException) -> str | None:
    """Where in a program of the user's an error arose: file, line and function; None for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if f.filename in _RUN), None)
    return frame and f"{frame.filename}:{frame.lineno}, in {frame.name}"


def run_file(path: Path, what: str) -> ModuleType:
    """A Python file as a module: it is run. `what` begins the errors about it."""
    if not path.is_file():
        raise ConfigError(f"{what}: no file {path}")
    spec = importlib.util.spec_from_file_location("chakra_program", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{what}: {path} cannot be imported; its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    _RUN.add(str(spec.origin))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigError(f"{what}: {path}, line {error.lineno}: {error.msg}") from None
    return module
