"""A study as its file describes it: a workload, what to vary, on which machines, after which passes.

name: llama-8b
workload: {model: llama3.1-8b, step: {seq: 4096, global_batch: 128}}
ranks: 64                        # dp is what tp, cp and pp leave
axes:                            # every combination is a point
  plan.tp: [1, 2, 4, 8]
  plan.pp: [1, 2, 4]
machines: [dgx-h100:8, {base: dgx-h100:8, name: half, network.1.bandwidth: 200 Gb/s}]
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from chakrakit.configuration import Document, Place, read_document
from chakrakit.errors import ConfigError
from chakrakit.exploration.sweep.served import is_served
from chakrakit.machines import (
    machine_document,
    parse_machine,
    parse_name,
    preset_text,
    read_machine,
)
from chakrakit.machines.device import common_compute, work_model
from chakrakit.machines.fabric import Machine

# --- machines of a study: by name, by file, or a changed copy of another one --------------------


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
        return _machine_of(self._spelled)


@lru_cache(maxsize=16)
def _machine_of(spelled: bytes) -> Machine:
    name, content, nodes = msgspec.json.decode(spelled)
    if nodes is None:
        return read_machine(content, name)
    return parse_machine(content, name, nodes)


def choose(entry: str | dict[str, Any], folder: Path) -> MachineChoice:
    """What a study's entry means; files are looked for beside the study.

    An entry is `dgx-h100:8`, a file, or `{base: dgx-h100:8, name: mine, network.1.bandwidth: 200 Gb/s}`.
    """
    if isinstance(entry, str):
        return _machine_named(entry, folder)
    changes = dict(entry)
    if not isinstance(changes.get("base"), str):
        raise ConfigError("a machine's mapping needs `base`, a preset or a file to change")
    base = _machine_named(changes.pop("base"), folder)
    name = (
        str(changes.pop("name", ""))
        or f"{base.name} with {', '.join(f'{k} {v}' for k, v in changes.items())}"
    )
    return changed(base, changes, name)


def changed(base: MachineChoice, changes: Mapping[str, Any], name: str) -> MachineChoice:
    """The machine with other figures, such as `network.1.bandwidth`, under another name."""
    content = copy.deepcopy(base.content)
    for path, value in changes.items():
        _set(content, str(path), value)
    return MachineChoice(name, content, base.nodes)


def _machine_named(name: str, folder: Path) -> MachineChoice:
    preset, nodes = parse_name(name)
    if preset is not None:
        return MachineChoice(name, preset_text(preset), nodes)
    file = folder / name
    if not file.is_file():
        from chakrakit.machines import load_machine

        load_machine(name)  # says what there is, or finds a file from where the command runs
        file = Path(name)
    return MachineChoice(name, machine_document(file).content)


def _set(content: Any, path: str, value: Any) -> None:
    """Sets `network.1.bandwidth` in nested mappings and lists."""
    steps = path.split(".")
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        if isinstance(content, list) and step in map(str, range(len(content))):
            key: Any = int(step)
        elif isinstance(content, dict) and (last or step in content):
            key = step
        else:
            raise ConfigError(f"{path}: there is no {'.'.join(steps[: at + 1])} to change")
        if last:
            content[key] = value
        else:
            content = content[key]


class StudySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How points are simulated, in the words of `chakra simulate`."""

    compute: str = "auto"
    network: Literal["flow", "analytical"] = "flow"


class StudyText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    name: str = "study"
    workload: dict[str, Any]
    """As for `chakra generate`: model, plan, step; or `serve`, as for `chakra serve`; or `capture`."""
    ranks: int | None = None
    """Where given, every plan has so many ranks: dp is what the other degrees leave."""
    axes: dict[str, list[Any]] = {}
    """Field → values, as in `plan.tp: [1, 2]`; a value that is a mapping sets several fields."""
    machines: list[str | dict[str, Any]]
    passes: list[str | list[str]] = msgspec.field(default_factory=lambda: ["none"])
    """Alternatives: `none`, a pass, or a list of passes one after another."""
    simulate: StudySettings = StudySettings()
    impossible: Literal["refuse", "skip"] = "refuse"
    """What to do with combinations that cannot be: refuse the study, or leave them out and count them."""


class SweepStudy(msgspec.Struct, frozen=True, kw_only=True):
    """A study whose every part is known to exist."""

    text: StudyText
    lines: Document
    machines: list[MachineChoice]
    chains: list[tuple[str, ...]]
    """The passes of each alternative, as they are spelled."""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.text.name


def read_study(path: str | Path) -> SweepStudy:
    """A study from its YAML file; a ConfigError names the line and the cure."""
    lines = read_document(path, "workload, machines and axes; see docs/sweep.md")
    _check_axes(lines)
    try:
        text = msgspec.convert(lines.content, StudyText)
    except msgspec.ValidationError as error:
        raise lines.converted(str(error), (), _names(str(error))) from None
    _check_parts(text, lines)
    _check_lists(text, lines)
    _check_settings(text, lines)
    _check_served(text, lines)
    machines = [_machine(text, lines, i) for i in range(len(text.machines))]
    _check_names(machines, lines)
    chains = [_chain(text, lines, i) for i in range(len(text.passes))]
    text = _on_one_rung(text, machines)
    return SweepStudy(text=text, lines=lines, machines=machines, chains=chains)


def _on_one_rung(text: StudyText, machines: list[MachineChoice]) -> StudyText:
    """The study with a work model whose times can be compared between all of its machines."""
    devices = (device for choice in machines for device in choice.machine().devices)
    compute = common_compute(text.simulate.compute, devices)
    settings = msgspec.structs.replace(text.simulate, compute=compute)
    return msgspec.structs.replace(text, simulate=settings)


def _check_axes(lines: Document) -> None:
    """Here, because msgspec does not say which key of a mapping it is about."""
    axes = lines.content.get("axes")
    for name, values in axes.items() if isinstance(axes, dict) else ():
        if not isinstance(values, list):
            message = f"axis {name} should be a list of values; write [{values}] for one"
            raise lines.error(("axes", name), message)


def _names(message: str) -> list[str]:
    """The fields there are where a message says one is unknown."""
    part = StudySettings if "$.simulate" in message else StudyText
    return [f.name for f in msgspec.structs.fields(part)]


def _check_parts(text: StudyText, lines: Document) -> None:
    """Whether there is something to set fields in; what the fields are is the workload's to say."""
    kinds: dict[str, tuple[type, ...]] = {"model": (str, dict), "plan": (dict,), "step": (dict,)}
    for name, kind in kinds.items():
        value = text.workload.get(name, {})
        if not isinstance(value, kind):
            expected = "a name or fields" if str in kind else "fields"
            raise lines.error(("workload", name), f"{name} should be {expected}, not {value!r}")


def _check_lists(text: StudyText, lines: Document) -> None:
    lists: dict[Place, list[Any]] = {
        ("machines",): list(text.machines),
        ("passes",): list(text.passes),
        **{("axes", name): values for name, values in text.axes.items()},
    }
    for place, values in lists.items():
        name = place[-1]
        if not values:
            raise lines.error(place, f"{name} is empty; give at least one value, or leave it out")
        earlier: list[Any] = []
        for i, value in enumerate(values):
            if value in earlier:
                raise lines.error((*place, i), f"{name} has {value!r} twice; once is enough")
            earlier.append(value)


def _check_settings(text: StudyText, lines: Document) -> None:
    if text.ranks is not None and text.ranks < 1:
        raise lines.error(("ranks",), f"ranks is {text.ranks}; it must be 1 or more")
    if text.ranks is not None and ("plan.dp" in text.axes or "dp" in text.workload.get("plan", {})):
        raise lines.error(("ranks",), "ranks decides dp; leave out either ranks or plan.dp")
    try:
        work_model(text.simulate.compute)
    except (ConfigError, OSError) as error:
        raise lines.error(("simulate", "compute"), str(error)) from None


def _check_served(text: StudyText, lines: Document) -> None:
    """A study that serves has no ranks, passes or settings of the simulator."""
    if not is_served(text.workload):
        return
    if not isinstance(text.workload["serve"], dict) or len(text.workload) > 1:
        message = "serve should be the workload's only field, and hold model, requests, engine, …"
        raise lines.error(("workload", "serve"), message)
    for name in ("ranks", "passes", "simulate"):
        if name in lines.content:
            message = f"{name} is not for a study that serves; its settings stand under `serve`"
            raise lines.error((name,), message)


def _machine(text: StudyText, lines: Document, i: int) -> MachineChoice:
    try:
        choice = choose(text.machines[i], Path(lines.path).parent)
        choice.machine()
    except ConfigError as error:
        raise lines.error(("machines", i), str(error)) from None
    return choice


def _check_names(machines: list[MachineChoice], lines: Document) -> None:
    """The table tells machines apart by name."""
    names = [m.name for m in machines]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise lines.error(
                ("machines", i), f"two machines are called {name!r}; give one a `name`"
            )


def _chain(text: StudyText, lines: Document, i: int) -> tuple[str, ...]:
    alternative = text.passes[i]
    specs = [alternative] if isinstance(alternative, str) else alternative
    if specs == ["none"] or not specs:
        return ()
    from chakrakit.passes.base import parse

    try:
        return tuple(str(parse(spec)) for spec in specs)
    except ConfigError as error:
        raise lines.error(("passes", i), str(error).removeprefix("--pass ")) from None
