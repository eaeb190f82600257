"""The points of a study: every combination, checked before anything runs, each with a content key."""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import chakrakit
from chakrakit.configuration import Place
from chakrakit.errors import ConfigError, nearest
from chakrakit.exploration.sweep.served import ServedWorkload, is_served, served_of
from chakrakit.exploration.sweep.study import MachineChoice, StudySettings, SweepStudy, changed
from chakrakit.sources.capture import capture_traces
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate import generated
from chakrakit.workloads.models import from_plain, model_named

# --- captured workloads: a command line with places for the values of axes ----------------------


_PLACE = re.compile(r"\{(\w+)\}")


class CapturedWorkload(msgspec.Struct, frozen=True):
    """`workload: {capture: python train.py --tp {tp}, ranks: 64, device: h100}` at one point."""

    capture: str
    ranks: int
    device: str = ""
    steps: str | None = None

    def traces(self) -> TraceSet:
        """The traces, with the bytes a rank needs in their card's `measured`."""
        traces, report = capture_traces(
            shlex.split(self.capture), ranks=self.ranks, device=self.device, steps=self.steps
        )
        measured = {
            "tokens": 0,
            "bubble_fraction": 0.0,
            "memory_bytes": max(k.peak_bytes for k in report.kinds),
        }
        return traces.with_card(traces.card.replace(measured=measured))


def is_captured(plain: Mapping[str, Any]) -> bool:
    """Whether a study's workload is a script."""
    return "capture" in plain


def captured_of(plain: Mapping[str, Any], fields: Mapping[str, Any]) -> CapturedWorkload:
    """The workload at one point: axes fill places of the command, or are its ranks, device or steps."""
    options = {f.name for f in msgspec.structs.fields(CapturedWorkload)} - {"capture"}
    text = str(plain["capture"])
    for name, value in fields.items():
        if name not in options and f"{{{name}}}" not in text:
            raise ConfigError(f"axis {name!r} has no place {{{name}}} in the command {text!r}")
        text = text.replace(f"{{{name}}}", str(value))
    unfilled = _PLACE.search(text)
    if unfilled is not None:
        raise ConfigError(
            f"the command {text!r} has a place {unfilled[0]}, and no axis is called {unfilled[1]!r}"
        )
    settings = {k: v for k, v in {**plain, **fields}.items() if k in options}
    try:
        return msgspec.convert({**settings, "capture": text}, CapturedWorkload)
    except msgspec.ValidationError as error:
        raise ConfigError(f"workload: {error}") from None


_OF_MACHINES = "machine."
"""How axes begin that are figures of the study's machines: `machine.network.1.bandwidth`."""
MOST_POINTS = 1_000_000  # all points are checked and held in memory before the first one runs
_SMALL = 100
"""What every point costs beside its micro-batches × layers, in the same unit: the fixed part of a
simulation."""


class StudyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run to make. It holds all that decides its result, so it can travel to any worker."""

    parameters: dict[str, Any]
    """What the axes say, by column name."""
    workload: Workload | CapturedWorkload | ServedWorkload
    machine: MachineChoice
    passes: tuple[str, ...]
    settings: StudySettings
    key: str
    weight: int
    """How much work it is, next to other points; for the estimate of the time left."""


class PointGrid(msgspec.Struct, frozen=True):
    """The points in the order of the study, and how many combinations are infeasible."""

    points: list[StudyPoint]
    skipped: int


def content_key(*parts: Any) -> str:
    """A name for what these parts lead to, under this version of chakrakit."""
    text = msgspec.json.encode([chakrakit.__version__, *parts], order="sorted")
    return hashlib.sha256(text).hexdigest()[:32]


def grid(study: SweepStudy) -> PointGrid:
    """Returns all points; a ConfigError names the line of an infeasible one, and the cure."""
    points: list[StudyPoint] = []
    skipped = 0
    settings_key = _settings_key(study.text.simulate)
    for parameters, places in _combinations(study):
        fields = {n: v for n, v in parameters.items() if not n.startswith(_OF_MACHINES)}
        try:
            workload = _workload(study, fields, places)
            ranks, weight = _sizes(study, workload, fields, places)
        except _ImpossibleError as error:
            if study.text.impossible == "refuse":
                raise error.refused() from None
            skipped += len(study.machines) * len(study.chains)
            continue
        for number, chain in itertools.product(range(len(study.machines)), study.chains):
            machine = _machine(study, number, parameters, places)
            try:
                _check_machine(study, number, machine, workload, ranks, fields, places)
            except _ImpossibleError as error:
                if study.text.impossible == "refuse":
                    raise error.refused() from None
                skipped += 1
                continue
            key = content_key(workload, machine.content, machine.nodes, chain, settings_key)
            points.append(
                StudyPoint(
                    parameters={
                        **parameters,
                        "machine": machine.name,
                        "passes": " ".join(chain) or "none",
                    },
                    workload=workload,
                    machine=machine,
                    passes=chain,
                    settings=study.text.simulate,
                    key=key,
                    weight=weight,
                )
            )
    if not points:
        raise study.lines.error(
            ("axes",), "no combination is feasible; `impossible: refuse` says why"
        )
    return PointGrid(points, skipped)


class _ImpossibleError(Exception):
    """An infeasible combination; its message says why."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))

    def refused(self) -> ConfigError:
        return ConfigError(f"{self}; or say `impossible: skip` to leave such points out")


def _combinations(study: SweepStudy) -> Iterator[tuple[dict[str, Any], list[Place]]]:
    """Fields and values of each combination, and where in the file they stand."""
    names = list(study.text.axes)
    count = math.prod(len(values) for values in study.text.axes.values())
    if count * len(study.machines) * len(study.chains) > MOST_POINTS:
        message = f"{count:,} combinations are too many; {MOST_POINTS:,} points are the most"
        raise study.lines.error(("axes",), message)
    for numbers in itertools.product(*(range(len(study.text.axes[n])) for n in names)):
        fields: dict[str, Any] = {}
        for name, i in zip(names, numbers, strict=True):
            value = study.text.axes[name][i]
            several = value if isinstance(value, dict) else {name: value}
            fields |= {str(field): v for field, v in several.items()}
        yield fields, [("axes", n, i) for n, i in zip(names, numbers, strict=True)]


def _workload(
    study: SweepStudy, fields: dict[str, Any], places: list[Place]
) -> Workload | CapturedWorkload | ServedWorkload:
    if is_captured(study.text.workload):
        return _captured(study, fields, places)
    if is_served(study.text.workload):
        return _served(study, fields, places)
    plain: dict[str, Any] = copy.deepcopy(study.text.workload)
    for name, value in fields.items():
        _set(study, plain, name, value, places)
    ranks = study.text.ranks
    if ranks is not None:
        plain["plan"] = {**plain.get("plan", {}), "dp": _left_for_dp(study, plain, fields, places)}
    try:
        return from_plain(plain, "workload")
    except ConfigError as error:
        raise _described(study, str(error).removeprefix("workload: "), fields) from None


def _captured(study: SweepStudy, fields: dict[str, Any], places: list[Place]) -> CapturedWorkload:
    try:
        return captured_of(study.text.workload, fields)
    except ConfigError as error:
        raise study.lines.error(_last(places) if places else ("workload",), str(error)) from None


def _served(study: SweepStudy, fields: dict[str, Any], places: list[Place]) -> ServedWorkload:
    try:
        return served_of(study.text.workload, fields, Path(study.lines.path).parent)
    except ConfigError as error:
        place = next((p for p in places if f"{p[1]!r}" in str(error)), ("workload", "serve"))
        raise study.lines.error(place, str(error)) from None


def _set(
    study: SweepStudy, plain: dict[str, Any], name: str, value: Any, places: list[Place]
) -> None:
    """Sets one field, `plan.tp` or `model`, in a workload's nested mappings."""
    *parents, last = name.split(".")
    is_field = name == "model" or (parents and parents[0] in ("model", "plan", "step"))
    for parent in parents if is_field else ():
        inner = plain.get(parent, {})
        plain[parent] = {"base": inner} if isinstance(inner, str) else inner
        plain = plain[parent]
        is_field = is_field and isinstance(inner, (str, dict))
        if not is_field:
            break
    if not is_field:
        place = next((p for p in places if p[1] == name), ("axes",))
        raise study.lines.error(
            place[:2],
            f"axis {name!r} is not a field of a workload; write model, model.X, plan.X, step.X or "
            "machine.X",
        )
    plain[last] = value


def _left_for_dp(
    study: SweepStudy, plain: dict[str, Any], fields: dict[str, Any], places: list[Place]
) -> int:
    plan = plain.get("plan", {})
    model_ranks = 1
    for name in ("tp", "cp", "pp"):
        degree = plan.get(name, 1)
        model_ranks *= degree if isinstance(degree, int) and degree > 0 else 1
    assert study.text.ranks is not None
    if study.text.ranks % model_ranks:
        message = f"tp × cp × pp = {model_ranks} does not divide {study.text.ranks} ranks"
        raise _ImpossibleError(
            study.lines.error(_last(places), f"{_spelled_fields(fields)}: {message}")
        )
    return study.text.ranks // model_ranks


def _described(study: SweepStudy, message: str, fields: dict[str, Any]) -> ConfigError:
    """A workload that is not well described: the axis that says so, or the workload itself."""
    for name in fields:
        part, _, field = name.rpartition(".")
        if f"`{field}`" in message or f"`$.{name}`" in message:
            names = _field_names(study, part) if part else []
            hint = f"; {nearest(field, names)}" if "unknown field" in message and names else ""
            axis = name if name in study.text.axes else next(iter(study.text.axes))
            return study.lines.error(("axes", axis), f"axis {name}: {message}{hint}")
    if message.startswith("no model"):
        place = ("axes", "model") if "model" in fields else ("workload", "model")
        return study.lines.error(place, message)
    return study.lines.converted(message, ("workload",), _field_names_at(study, message))


def _field_names(study: SweepStudy, part: str) -> list[str]:
    from chakrakit.workloads.description import Plan, Step

    model = study.text.workload.get("model")
    kinds: dict[str, Any] = {"plan": Plan, "step": Step, "": Workload}
    if part == "model" and isinstance(model, str):
        kinds["model"] = type(model_named(model))
    struct = kinds.get(part)
    return [f.name for f in msgspec.structs.fields(struct)] if struct else []


def _field_names_at(study: SweepStudy, message: str) -> list[str]:
    part = message.rpartition("`$.")[2].rstrip("`") if "`$." in message else ""
    return _field_names(study, part)


def _sizes(
    study: SweepStudy,
    workload: Workload | CapturedWorkload | ServedWorkload,
    fields: dict[str, Any],
    places: list[Place],
) -> tuple[int, int]:
    """Ranks and weight of a workload that can be; devices of engines depend on the machine."""
    if isinstance(workload, ServedWorkload):
        return 1, _SMALL
    if isinstance(workload, CapturedWorkload):
        return workload.ranks, _SMALL
    try:
        programs = generated(workload)
    except ConfigError as error:
        place = _last(places) if places else ("workload",)
        prefix = f"{_spelled_fields(fields)}: " if fields else ""
        raise _ImpossibleError(study.lines.error(place, f"{prefix}{error}")) from None
    return programs.size, _SMALL + programs.passes * getattr(workload.model, "layers", 1)


def _last(places: list[Place]) -> Place:
    return places[-1] if places else ("ranks",)


def _spelled_fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())


def _machine(
    study: SweepStudy, number: int, parameters: dict[str, Any], places: list[Place]
) -> MachineChoice:
    """A machine of the study with the figures that axes give it."""
    base = study.machines[number]
    changes = {
        name.removeprefix(_OF_MACHINES): value
        for name, value in parameters.items()
        if name.startswith(_OF_MACHINES)
    }
    if not changes:
        return base
    try:
        choice = changed(base, changes, base.name)
        choice.machine()
    except ConfigError as error:
        of_machines = [p for p in places if str(p[1]).startswith(_OF_MACHINES)]
        raise study.lines.error(_last(of_machines or places), str(error)) from None
    return choice


def _check_machine(
    study: SweepStudy,
    number: int,
    machine: MachineChoice,
    workload: Workload | CapturedWorkload | ServedWorkload,
    ranks: int,
    fields: dict[str, Any],
    places: list[Place],
) -> None:
    loaded = machine.machine()
    if isinstance(workload, ServedWorkload):
        try:
            ranks = workload.serving(loaded).devices
        except ConfigError as error:
            place = _last(places) if places else ("workload", "serve")
            prefix = f"{_spelled_fields(fields)}: " if fields else ""
            raise _ImpossibleError(study.lines.error(place, f"{prefix}{error}")) from None
    try:
        loaded.check_ranks(ranks)
    except ConfigError as error:
        place = ("machines", number)
        raise study.lines.error(place, str(error)) from None


def _settings_key(settings: StudySettings) -> list[str]:
    """The settings, with the content of a profile that is a file."""
    path = Path(settings.compute)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return [settings.compute, settings.network, content]
