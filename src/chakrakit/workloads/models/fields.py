"""A workload from single fields by name, as options of a command or keyword arguments give them."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import msgspec

from chakrakit.configuration import plain as as_written
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import (
    Convolutional,
    Decoder,
    Diffusion,
    Lengths,
    Model,
    Plan,
    Recommender,
    Samples,
    Step,
    Vision,
    Workload,
    description,
)
from chakrakit.workloads.models.files import from_plain, model_named, read_workload

PARTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "plan": (Plan,),
    "step": (Step,),
    "lengths": (Lengths,),
    "samples": (Samples,),
    "model": (Decoder, Vision, Diffusion, Recommender, Convolutional),
}
"""Of equal names the plan's and the step's win over the model's."""
_ONLY_IN_FILES = {
    "lengths", "samples", "tasks", "tables", "bottom", "top", "patch",
    "kinds", "pattern", "streams", "norm_weights", "head_bias", "extra", "mtp_layers", "vision", "precision",
}  # fmt: skip


@cache
def field_types() -> Mapping[str, tuple[str, Any]]:
    """Field name → (part, type), for every field that fits one option."""
    types: dict[str, tuple[str, Any]] = {}
    for part, structs in PARTS.items():
        for struct in structs:
            hints = typing.get_type_hints(struct)
            for field in msgspec.structs.fields(struct):
                if field.name not in _ONLY_IN_FILES:
                    types.setdefault(field.name, (part, hints[field.name]))
    return MappingProxyType(types)


def field_defaults() -> dict[str, str]:
    """Field name → its default as text, for fields that have a plain one; of equal names the first counts."""
    defaults: dict[str, str] = {}
    for struct in (struct for structs in PARTS.values() for struct in structs):
        for field in msgspec.structs.fields(struct):
            plain = isinstance(field.default, int | float | str) and field.default != ""
            defaults.setdefault(field.name, str(field.default).lower() if plain else "")
    defaults["global_batch"] = "dp × micro_batch"  # what a file or command line without it means
    return {name: text for name, text in defaults.items() if text}


def field_docs() -> dict[str, str]:
    """Field name → the string below it in `description.py`; of equal names the first of PARTS counts."""
    classes = {
        node.name: node.body
        for node in ast.parse(inspect.getsource(description)).body
        if isinstance(node, ast.ClassDef)
    }
    docs: dict[str, str] = {}
    for struct in (struct for structs in PARTS.values() for struct in structs):
        for name, doc in _documented(classes[struct.__name__]):
            docs.setdefault(name, doc)
    return docs


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(doc))):
                yield name, " ".join(doc.split())


def workload_of(path: str | None, model: str | Model | None, fields: Mapping[str, Any]) -> Workload:
    """The workload of a file, a model (or its name) and fields by name; fields win over the file."""
    plain: dict[str, Any] = msgspec.to_builtins(read_workload(path)) if path else {}
    if model:
        described = model_named(model) if isinstance(model, str) else model
        plain["model"] = msgspec.to_builtins(described)
    if "model" not in plain:
        raise ConfigError("no model; give --model M (see `chakra models`) or a WORKLOAD.yaml")
    return _with_fields(plain, fields, path or "options")


def workload_with(workload: Workload, fields: Mapping[str, Any]) -> Workload:
    """A workload with other values for fields by name."""
    return _with_fields(msgspec.to_builtins(workload), fields, "options")


def _with_fields(plain: dict[str, Any], fields: Mapping[str, Any], where: str) -> Workload:
    parts = {name: part for name, (part, _) in field_types().items()} | {"cells": "plan"}
    for name, value in fields.items():
        if name not in parts:
            close = get_close_matches(name, parts, 1)
            hint = f"did you mean {close[0]!r}?" if close else "`chakra generate --help` lists them"
            raise ConfigError(f"a workload has no field {name!r}; {hint}")
        if value is not None:
            _section(plain, parts[name])[name] = as_written(value)
    return from_plain(plain, where)


def _section(plain: dict[str, Any], part: str) -> dict[str, Any]:
    if part in ("lengths", "samples"):
        part_of_step: dict[str, Any] = plain.setdefault("step", {}).setdefault(part, {})
        return part_of_step
    section: dict[str, Any] = plain.setdefault(part, {})
    return section
