"""Programs in Python files, which a command line names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chakrakit.configuration import run_file
from chakrakit.errors import ConfigError, nearest

ENTRY = "program"
"""The function of a file that puts actors and pools into a world."""


def read_program_file(path: str) -> Callable[..., object]:
    """The function `program(world, …)` of a Python file. The file is run."""
    file = Path(path)
    entry = getattr(run_file(file, f"a Python file with `def {ENTRY}(world): …`"), ENTRY, None)
    if not callable(entry):
        raise ConfigError(f"{path} has no function `{ENTRY}(world)`, which adds the actors")
    return entry  # type: ignore[no-any-return]


def populate(world: object, entry: Callable[..., object], settings: Mapping[str, Any]) -> None:
    """Calls the function with the settings, each as the type of its default."""
    parameters = list(inspect.signature(entry).parameters.values())[1:]
    known = {p.name: p.default for p in parameters}
    given = {}
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"the program has no setting {name!r}; {nearest(name, known)}")
        given[name] = _as(known[name], value, name)
    lacks = [n for n, d in known.items() if d is inspect.Parameter.empty and n not in given]
    if lacks:
        raise ConfigError(f"the program needs {', '.join(lacks)}; give --set {lacks[0]}=…")
    entry(world, **given)


def _as(default: Any, value: Any, name: str) -> Any:
    """A text from a command line as a number where the default is one."""
    if not isinstance(value, str) or type(default) not in (int, float, bool):
        return value
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is {value!r}; give true or false")
        return value.lower() == "true"
    try:
        return type(default)(value)
    except ValueError:
        raise ConfigError(f"{name} is {value!r}; give a number") from None
