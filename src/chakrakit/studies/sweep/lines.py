"""Where things stand in a YAML file, so that an error can name the line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError, nearest

Place = tuple[str | int, ...]
"""Keys and list positions from the top of the file: ("axes", "plan.tp", 2)."""

_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r" - at `(?:key in )?\$([^`]*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


class Lines:
    """A YAML document and the line of everything in it; `holds` says what it should be about."""

    def __init__(
        self, path: str | Path, holds: str = "workload, machines and axes; see docs/sweep.md"
    ) -> None:
        import yaml

        self.path = str(path)
        try:
            text = Path(path).read_text("utf-8")
            self._top = yaml.compose(text, Loader=yaml.SafeLoader)
            self.content = yaml.safe_load(text)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
        _refuse_twice(self._top, self.path)
        if not isinstance(self.content, dict):
            raise ConfigError(f"{path}: should hold {holds}")

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that is in the file."""
        node, line = self._top, 1
        for step in place:
            found = _child(node, step)
            if found is None:
                return line
            node, line = found
        return line

    def error(self, place: Place, message: str) -> ConfigError:
        """The error to raise about a place."""
        return ConfigError(f"{self.path}:{self.line(place)}: {message}")

    def converted(self, message: str, base: Place, known: list[str]) -> ConfigError:
        """An error of msgspec's, with the line it is about and the nearest of the names there are."""
        at, unknown = _AT.search(message), _UNKNOWN.search(message)
        place = base + tuple(int(n) if n else k for k, n in _STEP.findall(at[1] if at else ""))
        told = _AT.sub("", message)
        if not unknown:
            return self.error(place, f"{'.'.join(map(str, place))}: {told}")
        return self.error(
            (*place, unknown[1]), f"no field {unknown[1]!r}; {nearest(unknown[1], known)}"
        )


def _refuse_twice(node: Any, path: str) -> None:
    """YAML takes the last of two equal keys and says nothing."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise ConfigError(f"{path}:{line}: {key.value!r} is there twice; keep one of them")
            seen.add(str(key.value))
            _refuse_twice(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twice(value, path)


def _child(node: Any, step: str | int) -> tuple[Any, int] | None:
    """A key's value (and the key's line), or an item of a list."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None
