"""Which nodes are meant: by name, class, module, phase, step or id. What is not given means all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.passes.nodes.attributes import (
    begins_to_match,
    coded,
    modules_of,
    names_of,
    texts_of,
    where,
)
from chakrakit.passes.nodes.classes import COMPUTE, classes_of, is_compute
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Selection:
    """Nodes that every given list means. Names and modules are expressions that a text begins to match."""

    names: Sequence[str] = ()
    classes: Sequence[str] = ()
    modules: Sequence[str] = ()
    phases: Sequence[str] = ()
    steps: Sequence[int] = ()
    nodes: Sequence[int] = ()

    def rows(self, trace: Trace) -> Mask:
        """Which rows of a trace are meant."""
        found = np.ones(len(trace), np.bool_)
        if self.names:
            found &= begins_to_match(names_of(trace), self.names, "names")
        if self.modules:
            found &= begins_to_match(modules_of(trace), self.modules, "modules")
        if self.classes:
            found &= of_classes(trace, self.classes)
        if self.phases:
            found &= where(texts_of(trace, "phase"), set(self.phases).__contains__)
        if self.steps:
            found &= np.isin(trace.step, self.steps)
        if self.nodes:
            found &= np.isin(trace.ids, np.array(self.nodes, np.uint64))
        return found

    def refuse_absent(self, traces: TraceSet) -> None:
        """A ConfigError for a word that means no node of any rank, with the nearest that do."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        missing = {(field, word) for field, words in given.items() for word in words}
        seen: dict[str, set[object]] = {field: set() for field in given}
        for number in range(traces.body_count):
            body = traces.body_at(number)
            for field, word in sorted(missing, key=str):
                if Selection(**{field: (word,)}).rows(body).any():
                    missing.discard((field, word))
            if not missing:
                return
            for field in {field for field, _ in missing}:
                seen[field] |= _words(body, field)
        field, word = min(missing, key=str)
        raise ConfigError(
            f"{field}: {word!r} is no node's; {nearest(word, sorted(seen[field], key=str))}"
        )


def _words(trace: Trace, field: str) -> set[object]:
    """What nodes could have been chosen by; ids are too many to list."""
    if field == "steps":
        return set(trace.step[trace.step >= 0].tolist())
    if field == "nodes":
        return {int(trace.ids.min()), int(trace.ids.max())} if len(trace) else set()
    texts = {"names": names_of, "modules": modules_of, "classes": classes_of}
    found = texts[field](trace) if field in texts else texts_of(trace, "phase")
    return {text for text in coded(found)[0] if text}


def of_classes(trace: Trace, classes: Sequence[str]) -> Mask:
    """Rows of some classes; `compute` is every class of device compute."""
    have, wanted = classes_of(trace), set(classes)
    return where(have, wanted.__contains__) | (is_compute(have) & (COMPUTE in wanted))
