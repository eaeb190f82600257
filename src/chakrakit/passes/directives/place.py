"""Place: which layers each stage of a pipeline has; what crosses between stages becomes messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, ClassVar

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.operators import element_bytes
from chakrakit.passes.base import Pass
from chakrakit.passes.directives.draft import MESSAGES, Draft, DraftRow, is_backward, shapes_of
from chakrakit.passes.directives.weights import HOW_TO, blocks_of, stretches
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import model_state, with_model_state
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Place(Pass):
    """Give each stage of a pipeline its layers: `stages=[6, 6]` is two stages of six.

    The first stage also has what comes before the layers, the last what comes after them. Tensors that go
    from one stage to another become messages, and their gradients messages back. The norm of gradients over
    stages comes with `replicate`.
    """

    name: ClassVar[str] = "place"
    preserves: ClassVar[str] = "every node with its work; messages are added between stages"
    stages: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.stages or min(self.stages) < 1:
            raise ConfigError(
                "place: give stages, the number of layers of each, such as stages=[6, 6]"
            )

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns a rank for each stage."""
        if len(traces.ranks) != 1:
            raise ConfigError(
                f"place wants a global trace of one rank, and there are {len(traces.ranks)}"
            )
        body = traces.trace(traces.ranks[0])
        stage_of, elements = self._stages(Draft(body))
        bodies = [self._stage(body, s, stage_of, elements[s]) for s in range(len(self.stages))]
        bindings = {s: Binding(s) for s in range(len(self.stages))}
        return TraceSet(bodies, bindings, Groups({"": list(bindings)}), traces.card)

    def _stages(self, draft: Draft) -> tuple[list[int], list[int]]:
        """The stage of each row, and the elements of weights of each stage."""
        blocks = blocks_of(draft)
        layers = len(blocks) - 2
        if sum(self.stages) != layers:
            raise ConfigError(
                f"stages has {sum(self.stages)} layers in all, and the trace {layers}"
            )
        _refuse_tied(draft, blocks[-1].elements)
        bounds = list(accumulate(self.stages))
        of_layer = [next(s for s, b in enumerate(bounds) if i < b) for i in range(layers)]
        of_block = [0, *of_layer, len(bounds) - 1]
        place: dict[DraftRow, int] = {}
        for (_, _, block), rows in stretches(draft, len(blocks)).items():
            place |= dict.fromkeys(rows, of_block[block])
        for number, block_weights in enumerate(blocks):
            place[block_weights.update] = of_block[number]
        elements = [
            sum(b.total for n, b in enumerate(blocks) if of_block[n] == s)
            for s in range(len(bounds))
        ]
        for row in draft.rows:
            if row not in place:
                raise ConfigError(
                    f"node {row['name']!r} belongs to no layer and no update; {HOW_TO}"
                )
        return [place[row] for row in draft.rows], elements

    def _stage(self, body: Trace, stage: int, stage_of: list[int], elements: int) -> Trace:
        draft = Draft(body)
        place = dict(zip(draft.rows, stage_of, strict=True))
        _messages(draft, place, stage)
        draft.keep(lambda row: place.get(row, stage) == stage)
        draft.in_order()
        parts = [
            msgspec.structs.replace(p, elements=elements, bytes=elements * p.width, role="")
            for p in model_state(body)
        ]
        return with_model_state(draft.trace(), parts)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The messages of each stage."""
        kinds = [after.body_at(s).column("type", 0) for s in range(after.body_count)]
        sends = [int((k == int(NodeType.COMM_SEND_NODE)).sum()) for k in kinds]
        return {"stages": len(kinds), "sends": sends}


def _refuse_tied(draft: Draft, elements: Iterable[int]) -> None:
    """A table that the first and the last stage would share is not built."""
    head = next((r for r in draft.rows if r["name"] == "head"), None)
    if head is not None and head.get("inputs_shapes"):
        weight = prod(shapes_of(head)[-1])
        if weight not in elements:
            raise ConfigError(
                "the head uses the embedding's table, which one stage cannot share with another; use a model "
                "that is not tied"
            )


def _messages(draft: Draft, place: dict[DraftRow, int], stage: int) -> None:
    """A send behind every row whose result another stage needs, a receive before the rows that need it."""
    crossing: dict[tuple[DraftRow, int], list[DraftRow]] = {}
    for source, target, *_ in draft.edges:
        inside = source.get("micro_batch") is not None and target.get("micro_batch") is not None
        if inside and place[source] != place[target]:
            crossing.setdefault((source, place[target]), []).append(target)
    for (source, there), targets in crossing.items():
        if _is_order_alone(draft, source, targets):
            continue
        here = place[source]
        if stage == here:
            row = _message(draft, "send", source, here, there, place)
            draft.rows.insert(draft.rows.index(source) + 1, row)
            draft.wait(row, [source])
        elif stage == there:
            row = _message(draft, "recv", source, here, there, place)
            draft.rows.insert(min(draft.rows.index(t) for t in targets), row)
            for target in targets:
                draft.wait(target, [row])


def _is_order_alone(draft: Draft, source: DraftRow, targets: list[DraftRow]) -> bool:
    """Whether only the order of rows leads from one stage to another, which messages then decide."""
    wanted = set(targets)
    return not any(source in draft.sources(target) for target in wanted)


def _message(
    draft: Draft, op: str, source: DraftRow, here: int, there: int, place: dict[DraftRow, int]
) -> DraftRow:
    way = "backward" if is_backward(source) else "forward"
    size = _boundary_bytes(draft, max(here, there), place)
    kind = NodeType.COMM_SEND_NODE if op == "send" else NodeType.COMM_RECV_NODE
    tag = (int(source["micro_batch"]) * len(set(place.values())) + max(here, there)) * 2
    return draft.row(
        name=f"{op}_{way}",
        type=int(kind),
        comm_size=size,
        comm_src=here,
        comm_dst=there,
        comm_tag=tag + (way == "backward"),
        stream=MESSAGES + 2 * (way == "backward") + (op == "send"),
        phase=way,
        micro_batch=source["micro_batch"],
    )


def _boundary_bytes(draft: Draft, stage: int, place: dict[DraftRow, int]) -> int:
    """The tensor that enters a stage: what its first product reads."""
    for row in draft.rows:
        if place.get(row) == stage and not is_backward(row) and row.get("inputs_shapes"):
            return int(prod(shapes_of(row)[0]) * element_bytes(row["dtype"]))
    raise ConfigError(f"no node of stage {stage} has inputs_shapes, which say what enters it")
