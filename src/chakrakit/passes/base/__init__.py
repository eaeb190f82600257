"""What a pass is, how it is written, found and applied."""

from __future__ import annotations

from chakrakit.passes.base.added import free_ids, with_nodes
from chakrakit.passes.base.base import Pass, head_and_inside, map_bodies, narrow, split, with_bodies
from chakrakit.passes.base.nodes import (
    NodeSelection,
    classes_of,
    coded,
    is_compute,
    names_of,
    of_classes,
    same_name,
    texts_of,
    where,
    where_named,
    with_own_ns,
    with_run_times,
    without_gaps,
)
from chakrakit.passes.base.pipeline import Applied, Transformed, transform
from chakrakit.passes.base.registry import (
    PASSES,
    PassList,
    list_passes,
    parse,
    pass_class,
    read_passes,
)

__all__ = [
    "PASSES",
    "Applied",
    "NodeSelection",
    "Pass",
    "PassList",
    "Transformed",
    "classes_of",
    "coded",
    "free_ids",
    "head_and_inside",
    "is_compute",
    "list_passes",
    "map_bodies",
    "names_of",
    "narrow",
    "of_classes",
    "parse",
    "pass_class",
    "read_passes",
    "same_name",
    "split",
    "texts_of",
    "transform",
    "where",
    "where_named",
    "with_bodies",
    "with_nodes",
    "with_own_ns",
    "with_run_times",
    "without_gaps",
]
