"""Follows calls of a function that is known by its name alone, wherever the program defines it."""

from __future__ import annotations

import builtins
import gc
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

_TABLE = "__chakra_followed_calls__"
"""Built-in name of the functions that replaced code calls: the only place that every module can see."""
_PYTHON = sysconfig.get_path("stdlib")
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_named(code: CodeType, module: str, name: str) -> bool:
    """Whether a function is meant by `name`: `generate`, `Model.generate` or `package.module.generate`."""
    qualified = getattr(code, "co_qualname", code.co_name)
    full = f"{module}.{qualified}"
    return name in (code.co_name, qualified) or full == name or full.endswith("." + name)


def _is_pythons(filename: str) -> bool:
    """Whether a file is of Python's own library, not of a package that was installed beside it."""
    return filename.startswith((_PYTHON, "<frozen")) and "-packages" not in filename


def _is_installed(filename: str) -> bool:
    return "-packages" in filename or not _is_below(filename, _script())


def _is_below(filename: str, script: Path | None) -> bool:
    """Whether a file lies in the script's folder, so that it belongs to the program."""
    return script is None or Path(filename).resolve().is_relative_to(script.parent)


def _script() -> Path | None:
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(path).resolve() if path else None


def _in_script(name: str) -> bool:
    """Whether the program's main file defines a function of this name: it is meant then, and no library's."""
    script = _script()
    if script is None or not script.is_file():
        return False
    definition = rf"^\s*(async )?def {re.escape(name)}\b"
    return re.search(definition, script.read_text(errors="replace"), re.M) is not None


class FollowedCalls:
    """Calls `then` whenever the outermost call of a function returns.

    Python tells of every call until the first one of that name begins. When it returns, the function's code
    is replaced by code that calls the original, and from then on nothing else costs any time.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then
        self._code: CodeType | None = None
        self._depth = 0
        self._put_back: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Wait for the first call, in this thread."""
        sys.setprofile(self._event)

    def stop(self) -> None:
        """Leave everything as it was."""
        if sys.getprofile() == self._event:
            sys.setprofile(None)
        self._put_back()

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if self._code is None and event == "call" and self._is_meant(frame):
            self._check(code)
            self._code = code
        if code is not self._code:
            return
        self._depth += 1 if event == "call" else -1
        if self._depth == 0:
            sys.setprofile(None)
            self._swap(code)
            self.then()

    def _is_meant(self, frame: FrameType) -> bool:
        if not is_named(frame.f_code, frame.f_globals.get("__name__", ""), self.name):
            return False
        filename = frame.f_code.co_filename
        if "." in self.name:
            return True
        return not (_is_pythons(filename) or (_is_installed(filename) and _in_script(self.name)))

    def _check(self, code: CodeType) -> None:
        if code.co_flags & _RESUMED:
            sys.setprofile(None)
            raise ValueError(
                f"{self.name} is a generator or coroutine, which returns many times; name a function "
                "whose return ends a step"
            )

    def _swap(self, code: CodeType) -> None:
        for function in gc.get_referrers(code):
            if isinstance(function, FunctionType) and function.__code__ is code:
                self._put_back = _replaced(function, self._around)
                return

    def _around(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self._depth += 1
        try:
            result = plain(*args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            self.then()
        return result


def _replaced(
    function: FunctionType, around: Callable[[Callable[..., Any], Any, Any], Any]
) -> Callable[[], None]:
    """Give a function other code in place, so that every reference to it follows; returns what undoes it."""
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    plain = FunctionType(
        code, function.__globals__, function.__name__, defaults, function.__closure__
    )
    plain.__kwdefaults__ = keywords
    signature = inspect.signature(function)
    table: list[Any] = builtins.__dict__.setdefault(_TABLE, [])
    table.append(lambda args, kwargs: around(plain, args, kwargs))
    function.__code__ = _forwarding(len(code.co_freevars), len(table) - 1)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__dict__["__signature__"] = signature  # what libraries ask a function for

    def put_back() -> None:
        function.__code__, function.__defaults__ = code, defaults
        function.__kwdefaults__ = keywords
        function.__dict__.pop("__signature__", None)

    return put_back


def _forwarding(free: int, place: int) -> CodeType:
    """Code that calls an entry of the table, with as many free variables as the code that it replaces."""
    names = ", ".join(f"free_{i}" for i in range(free))
    used = f"; ({names},)" if free else ""
    source = (
        f"def enclosing({names}):\n"
        "    def forward(*args, **kwargs):\n"
        f"        return {_TABLE}[{place}](args, kwargs){used}\n"
        "    return forward.__code__"
    )
    space: dict[str, Any] = {}
    exec(source, space)
    made: CodeType = space["enclosing"](*[None] * free)
    return made
