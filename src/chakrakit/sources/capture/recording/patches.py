"""Attributes replaced for the time of a capture, and what of the script's surroundings was stubbed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_ABSENT = object()
_PACKAGE = __name__.partition(".")[0] + "."
_OWN = str(Path(__file__).parents[3])


class Patches:
    """Replaced attributes, put back in reverse order; and notes for the report, each said once.

    `stubbed` lists what was called and did nothing or something else than usual, `warnings` what the
    reader of the trace has to know.
    """

    def __init__(self) -> None:
        self.stubbed: dict[str, None] = {}
        self.warnings: dict[str, None] = {}
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute; returns what was there, None for what was not."""
        before = owner.__dict__.get(name, _ABSENT) if isinstance(owner, type) else _ABSENT
        found = getattr(owner, name, None)
        if before is _ABSENT and not isinstance(owner, type):
            before = getattr(owner, name, _ABSENT)
        self._undo.append(lambda: _put_back(owner, name, before))
        setattr(owner, name, value)
        return found

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function by one made from it; nothing happens where there is none."""
        found = getattr(owner, name, None)
        if found is not None:
            made = make(found)
            made.__name__ = getattr(found, "__name__", name)  # some look functions up by their name
            self.set(owner, name, made)

    def replace(self, found: Any, made: Any) -> None:
        """Replace a function or class under every name that a module, ours aside, imported it by."""
        for path, module in list(sys.modules.items()):
            if path.startswith(_PACKAGE):
                continue
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if value is found:
                    self.set(module, name, made)

    def stub(self, owner: Any, name: str, label: str, result: Any = None) -> None:
        """Replace a function by one that does nothing and is listed once called."""

        def nothing(*_: Any, **__: Any) -> Any:
            self.note(label)
            return result

        if hasattr(owner, name):
            self.set(owner, name, nothing)

    def note(self, label: str) -> None:
        """List something that was stubbed."""
        self.stubbed.setdefault(label)

    def warn(self, text: str) -> None:
        """A warning, once."""
        self.warnings.setdefault(text)

    def on_undo(self, act: Callable[[], None]) -> None:
        """Something else to take back."""
        self._undo.append(act)

    def undo(self) -> None:
        """Everything as it was."""
        while self._undo:
            self._undo.pop()()


def _put_back(owner: Any, name: str, before: Any) -> None:
    if before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def script_line() -> str:
    """`file.py:12` of the innermost line that is neither PyTorch's, Python's nor ours."""
    frame = sys._getframe(1)
    found: FrameType | None = frame
    while found is not None:
        name = found.f_code.co_filename
        if not is_library(name):
            return f"{Path(name).name}:{found.f_lineno}"
        found = found.f_back
    return "the script"


def is_library(filename: str) -> bool:
    """Whether a file belongs to an installed package, to Python itself or to chakrakit."""
    return (
        "site-packages" in filename
        or "dist-packages" in filename
        or filename.startswith(("<", sys.base_prefix + "/lib", _OWN))
    )
