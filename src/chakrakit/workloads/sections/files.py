"""A graph of sections from a YAML file or a dictionary of the same form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import Document, document_of, plain, read_document, with_choices
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import SectionGraph
from chakrakit.workloads.models import field_types, with_models


def description_of(source: object) -> Document | None:
    """The description that a file or a dictionary holds; None for a folder of traces."""
    holds = "model, plan and step; sections and step; or attention, spatial or gnn"
    if isinstance(source, Mapping):
        return document_of(source, "description", holds)
    if Path(str(source)).is_dir():  # generated traces, whose card describes one model
        return None
    return read_document(str(source), holds)


def section_graph_of(document: Document, fields: Mapping[str, Any]) -> SectionGraph:
    """The graph that a description holds; fields of the step by name win over it."""
    content = {**document.content}
    sections = content.get("sections")
    if not isinstance(sections, dict) or not all(isinstance(s, dict) for s in sections.values()):
        raise ConfigError(
            f"{document.path}: sections should hold a name and a description (model, plan, after, …) for each"
        )
    content["sections"] = {name: with_models(section) for name, section in sections.items()}
    content["step"] = _with_fields(content.get("step"), fields)
    try:
        graph = msgspec.convert(content, SectionGraph)
    except msgspec.ValidationError as error:
        said = with_choices(str(error), SectionGraph)
        raise document.pointed(f"{document.path}: {said}") from None
    return graph if "global_batch" in content["step"] else _with_batch(graph)


def _with_batch(graph: SectionGraph) -> SectionGraph:
    """Where nothing says the batch, a micro-batch for every replica of the section that has the most."""
    most = max((s.plan.dp * s.micro_batch for s in graph.sections.values()), default=1)
    changed: SectionGraph = graph.replace(step=graph.step.replace(global_batch=most))
    return changed


def _with_fields(step: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    parts = {name: part for name, (part, _) in field_types().items()}
    changed = dict(step or {})
    for name, value in fields.items():
        if value is None:
            continue
        part = parts.get(name, "")
        if part == "step":
            changed[name] = plain(value)
        elif part in ("samples", "lengths"):
            changed[part] = {**changed.get(part, {}), name: plain(value)}
        else:
            raise ConfigError(
                f"{name} is not of the step, and every section has a {part or 'plan'} of its own; set it in "
                "the file"
            )
    return changed
