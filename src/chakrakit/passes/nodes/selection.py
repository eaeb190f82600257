"""Which nodes are meant: by name, class, module, phase, step or id. What is not given means all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.passes.nodes.attributes import begins_to_match, modules_of, names_of, texts_of, where
from chakrakit.passes.nodes.classes import COMPUTE, classes_of, is_compute
from chakrakit.trace.model import Trace


def matching(
    trace: Trace,
    *,
    names: Sequence[str] = (),
    classes: Sequence[str] = (),
    modules: Sequence[str] = (),
    phases: Sequence[str] = (),
    steps: Sequence[int] = (),
    nodes: Sequence[int] = (),
) -> Mask:
    """Rows that all given lists mean. Names and modules are expressions that a text begins to match."""
    found = np.ones(len(trace), np.bool_)
    if names:
        found &= begins_to_match(names_of(trace), names, "names")
    if modules:
        found &= begins_to_match(modules_of(trace), modules, "modules")
    if classes:
        found &= of_classes(trace, classes)
    if phases:
        found &= where(texts_of(trace, "phase"), set(phases).__contains__)
    if steps:
        found &= trace.has("step") & np.isin(trace.column("step", -1), steps)
    if nodes:
        found &= np.isin(trace.ids, np.array(nodes, np.uint64))
    return found


def of_classes(trace: Trace, classes: Sequence[str]) -> Mask:
    """Rows of some classes; `compute` is every class of device compute."""
    have, wanted = classes_of(trace), set(classes)
    return where(have, wanted.__contains__) | (is_compute(have) & (COMPUTE in wanted))
