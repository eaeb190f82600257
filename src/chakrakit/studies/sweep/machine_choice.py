"""A machine as a study names it: by name, by file, or as another one with some figures changed."""

from __future__ import annotations

import copy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import (
    machine_document,
    parse_machine,
    parse_name,
    preset_text,
    read_machine,
)


class MachineChoice(msgspec.Struct, frozen=True, dict=True):
    """A machine's whole description, so that whoever simulates it needs no file."""

    name: str
    content: dict[str, Any]
    nodes: int | None = None

    @cached_property
    def _spelled(self) -> bytes:
        return msgspec.json.encode([self.name, self.content, self.nodes], order="sorted")

    def machine(self) -> Machine:
        """The machine itself; made once in a process."""
        return _made(self._spelled)


@lru_cache(maxsize=16)
def _made(spelled: bytes) -> Machine:
    name, content, nodes = msgspec.json.decode(spelled)
    if nodes is None:
        return read_machine(content, name)
    return parse_machine(content, name, nodes)


def choose(entry: str | dict[str, Any], folder: Path) -> MachineChoice:
    """What a study's entry means; files are looked for beside the study.

    An entry is `dgx-h100:8`, a file, or `{base: dgx-h100:8, name: mine, network.1.bandwidth: 200 Gb/s}`.
    """
    if isinstance(entry, str):
        return _named(entry, folder)
    own = dict(entry)
    if not isinstance(own.get("base"), str):
        raise ConfigError("a machine's mapping needs `base`, a preset or a file to change")
    base = _named(own.pop("base"), folder)
    name = (
        str(own.pop("name", ""))
        or f"{base.name} with {', '.join(f'{k} {v}' for k, v in own.items())}"
    )
    content = copy.deepcopy(base.content)
    for path, value in own.items():
        _set(content, str(path), value)
    return MachineChoice(name, content, base.nodes)


def _named(name: str, folder: Path) -> MachineChoice:
    preset, nodes = parse_name(name)
    if preset is not None:
        return MachineChoice(name, preset_text(preset), nodes)
    file = folder / name
    if not file.is_file():
        from chakrakit.machines.load import load_machine

        load_machine(name)  # says what there is, or finds a file from where the command runs
        file = Path(name)
    return MachineChoice(name, machine_document(file).content)


def _set(content: Any, path: str, value: Any) -> None:
    """Sets `network.1.bandwidth` in nested mappings and lists."""
    steps = path.split(".")
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        if isinstance(content, list) and step.isdigit() and int(step) < len(content):
            key: Any = int(step)
        elif isinstance(content, dict) and (last or step in content):
            key = step
        else:
            raise ConfigError(f"{path}: there is no {'.'.join(steps[: at + 1])} to change")
        if last:
            content[key] = value
        else:
            content = content[key]
