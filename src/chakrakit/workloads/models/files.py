"""Workloads from YAML files and plain dictionaries, with models by name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import read_document, with_choices
from chakrakit.errors import ConfigError, nearest
from chakrakit.trace.sets import Card, read_card
from chakrakit.workloads.description import Model, Workload
from chakrakit.workloads.models.published import catalog

# Models by name: from the catalog, or from a Hugging Face `config.json`.


def model_named(name: str) -> Model:
    """A model by its name in the catalog, or from a `config.json` (or the directory that has one)."""
    if not isinstance(name, str):  # descriptions come from files
        raise ConfigError(f"a model is named by a text, not by {name!r:.40}")
    known = _catalog_by_letters().get(_letters(name))
    return _from_config(name) if known is None else known


@cache
def _catalog_by_letters() -> dict[str, Model]:
    return {_letters(name): model for name, model in catalog().items()}


def _from_config(name: str) -> Model:
    """The model of a `config.json`, whose reader is imported for such models alone."""
    from chakrakit.workloads.models.hugging_face import cached_config, read_config

    place, ignored = _ignoring(name)
    path = Path(place)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return read_config(path, ignored)
    if cached := cached_config(place):
        return read_config(cached, ignored).replace(name=place.rpartition("/")[2])  # type: ignore[no-any-return]
    raise ConfigError(
        f"no model {name!r}; {nearest(name, catalog())} See `chakra models`; a path to a Hugging Face "
        "config.json works too, or ORGANISATION/NAME of one in the local cache"
    )


_IGNORING = re.compile(r"(.*)\{ignore=([^{}]*)\}", re.DOTALL)


def _ignoring(name: str) -> tuple[str, list[str]]:
    """A path, and the keys that are to be ignored: `PATH{ignore=KEY+KEY}`."""
    parts = _IGNORING.fullmatch(name)
    return (parts[1], parts[2].split("+")) if parts else (name, [])


def _letters(name: str) -> str:
    """A name however it is hyphenated: llama-3.1-8b and llama3.1-8b are one."""
    return "".join(c for c in name.lower() if c.isalnum() or c == ".")


def with_models(data: dict[str, Any]) -> dict[str, Any]:
    """A description in which a model's name, or its `base` with other fields, is written out."""
    model = data.get("model")
    if isinstance(model, str):
        return {**data, "model": msgspec.to_builtins(model_named(model))}
    if isinstance(model, dict) and "base" in model:
        changed = {k: v for k, v in model.items() if k != "base"}
        return {**data, "model": {**msgspec.to_builtins(model_named(model["base"])), **changed}}
    return data


def from_plain(data: dict[str, Any], where: str = "description") -> Workload:
    """A workload from nested dictionaries; errors say which field is wrong."""
    data = with_models(data)
    try:
        return _with_batch(msgspec.convert(data, Workload), data)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {with_choices(str(error), Workload)}") from None


def _with_batch(workload: Workload, data: dict[str, Any]) -> Workload:
    """Where nothing says the batch of a training step, one micro-batch for every replica."""
    step = workload.step
    if not step.in_micro_batches or "global_batch" in (data.get("step") or {}):
        return workload
    batch = workload.plan.dp * step.micro_batch
    return msgspec.structs.replace(workload, step=msgspec.structs.replace(step, global_batch=batch))


def read_workload(path: str | Path) -> Workload:
    """A workload from a YAML (or JSON) file, or that of generated traces and runs of them."""
    if Path(path).is_dir():
        return _of_directory(Path(path))
    document = read_document(path, "model, plan and step")
    try:
        return from_plain(document.content, str(path))
    except ConfigError as error:
        raise document.pointed(str(error)) from None


def _of_directory(folder: Path) -> Workload:
    workload = generated_from(read_card(folder / "card.json"))
    if workload is None:
        raise ConfigError(
            f"{folder}: its card describes no workload; give what `chakra generate` wrote, a simulation of "
            "that, or a YAML file"
        )
    return workload


def generated_from(card: Card) -> Workload | None:
    """The workload that traces were generated from, as their card tells; None for other traces."""
    described = {n: card.settings[n] for n in _DESCRIBED if card.settings.get(n) is not None}
    if not all(isinstance(described.get(n), dict) for n in _DESCRIBED[:3]):
        return None
    try:
        return msgspec.convert(described, Workload)
    except msgspec.ValidationError:
        return None


_DESCRIBED = ("model", "plan", "step", "disaggregated")
