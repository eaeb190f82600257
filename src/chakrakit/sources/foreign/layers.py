"""Workloads by layers: ASTRA-sim 1.0's text, and SimAI's, which has the same lines with a longer header.

Line 1: the parallelism (MICRO, DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, HYBRID_DLRM N,
HYBRID_TRANSFORMER, HYBRID_TRANSFORMER_FWD_IN_BCKWD, …), then pairs such as `model_parallel_NPU_group: 8`,
and of SimAI `ep: pp: vpp: ga: all_gpus: checkpoints: pp_comm`. Line 2: the number of layers. Then a line
a layer: name, a reserved number, three times (forward, input gradient, weight gradient) compute time in
ns, collective and bytes, and the time to apply the update.

Collectives are NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, BROADCAST. Forward and of input
gradients they are among the tensor-parallel ranks (the model-parallel ones), of weight gradients among
the data-parallel ones; `_EP` names the expert-parallel group, `_DP_EP` the data-parallel one of experts.
A size is the whole tensor's.

Layers run forward in their order and backward in the opposite one. A collective of a weight gradient
holds nothing back but its own update; every other one holds back what follows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

_SCHEMES = (
    "MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED", "HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_CUSTOMIZED",
    "DISTRIBUTED_INFERENCE", "TRANSFORMER",
)  # fmt: skip
_COLLECTIVES = {
    "ALLREDUCE": CollectiveType.ALL_REDUCE,
    "ALLGATHER": CollectiveType.ALL_GATHER,
    "REDUCESCATTER": CollectiveType.REDUCE_SCATTER,
    "ALLTOALL": CollectiveType.ALL_TO_ALL,
    "BROADCAST": CollectiveType.BROADCAST,
}
_WHOLE = ("MICRO", "MODEL", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "DISTRIBUTED_INFERENCE")
"""Parallelisms in which all ranks take part in every collective."""
_SPLIT = ("HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
_ASSUMED_RANKS = 8
"""Ranks where a file does not say how many there are: one server."""
_MOST_LAYERS = 10_000_000
"""Layers of a file, of which each is a line, so that a number alone cannot ask for memory."""
_MOST_RANKS = 1 << 20
"""Ranks that a file may ask for: a million, of which each gets a binding."""
_HEAD = re.compile(rb"\s*(%s)\b[^\n]*\n\s*\d+\s*\n" % "|".join(_SCHEMES).encode())
_PASSES = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True)
class LayerPlan:
    """How many ranks there are, and in which groups they are."""

    ranks: int
    tensor: int
    expert: int
    scheme: str
    assumed: tuple[str, ...] = ()
    alone: Counter[str] = field(default_factory=Counter)
    """Collectives in groups of one rank, which move nothing."""

    def groups(self) -> dict[str, list[list[int]]]:
        """Lists of ranks by role; tensor parallelism is innermost, experts are spread over replicas."""
        tensor = [list(range(i, i + self.tensor)) for i in range(0, self.ranks, self.tensor)]
        data = [list(range(i, self.ranks, self.tensor)) for i in range(self.tensor)]
        expert = [d[i : i + self.expert] for d in data for i in range(0, len(d), self.expert)]
        data_expert = [d[i :: self.expert] for d in data for i in range(min(self.expert, len(d)))]
        return {"tp": tensor, "dp": data, "ep": expert, "dp_ep": data_expert}

    def members(self, role: str) -> int:
        """How many ranks a group of this role has."""
        replicas = self.ranks // self.tensor
        sizes = {
            "tp": self.tensor,
            "dp": replicas,
            "ep": self.expert,
            "dp_ep": replicas // self.expert,
        }
        return sizes[role]


@dataclass(frozen=True)
class LayerLine:
    """One line: (ns, collective, bytes) of each pass, and the ns of the update."""

    name: str
    passes: tuple[tuple[int, str, int], ...]
    update: int


def is_layers(head: bytes) -> bool:
    """Whether text begins with a parallelism and a number of layers."""
    return _HEAD.match(head) is not None


def read_layers(data: bytes, path: str) -> TraceSet:
    """The traces of a workload by layers: one program that all ranks run."""
    lines = data.decode("utf-8", "replace").lstrip().splitlines()
    if len(lines) < 2:
        raise FormatError("ends before the number of layers, on line 2", path=path)
    plan = _plan(lines[0], path)
    layers = list(_layers(lines, path))
    builder = TraceBuilder()
    _forward(builder, layers, plan)
    groups: Any = {k: v for k, v in plan.groups().items() if len(v[0]) > 1}
    traces = TraceSet.of(builder, ranks=plan.ranks, groups=groups)
    settings: dict[str, Any] = {"parallelism": lines[0].strip()}
    alone = [f"{n} × {what} left out: the group has one rank" for what, n in plan.alone.items()]
    if plan.assumed or alone:
        settings["assumed"] = [*plan.assumed, *alone]
    name = "SimAI" if "all_gpus" in lines[0] else "ASTRA-sim 1.0"
    return traces.with_card(traces.card.replace(tool=name, source=[path], settings=settings))


def _plan(header: str, path: str) -> LayerPlan:
    fields = {k: int(v) for k, v in re.findall(r"(\w+):?\s+(\d{1,9})\b", header)}
    scheme = header.split()[0]
    tensor = max(fields.get("model_parallel_NPU_group", 1), 1)
    stages, expert = max(fields.get("pp", 1), 1), max(fields.get("ep", 1), 1)
    assumed = []
    if fields.get("all_gpus", 0):
        ranks = fields["all_gpus"] // stages
    else:
        ranks = tensor * max(_ASSUMED_RANKS // tensor, 1 if tensor == 1 else 2)
        assumed.append(f"{ranks} ranks: the file does not say how many there are")
    if scheme in _WHOLE:
        tensor = ranks
    elif scheme in _SPLIT and tensor == 1:
        tensor = 2
        assumed.append(f"groups of {tensor} share a layer: the file does not say how many do")
    if stages > 1:
        assumed.append(
            f"one of {stages} pipeline stages: messages between stages are not in the file"
        )
    if fields.get("checkpoints", 0):
        assumed.append("checkpointed layers are not computed again")
    if not 0 < ranks <= _MOST_RANKS or ranks % tensor or (ranks // tensor) % expert:
        raise FormatError(
            f"line 1: {ranks:,} ranks do not divide into tensor groups of {tensor} and experts' of {expert}",
            path=path,
        )
    return LayerPlan(ranks, tensor, expert, scheme, tuple(assumed))


def _layers(lines: list[str], path: str) -> Iterator[LayerLine]:
    count = " ".join(lines[1].split()[:1])
    if not count.isdecimal() or len(count) > 8:
        raise FormatError(f"line 2: {count[:12]!r} is not a number of layers", path=path)
    rows = [(n, line.split()) for n, line in enumerate(lines[2:], 3) if line.strip()]
    if int(count) > _MOST_LAYERS or len(rows) < int(count):
        raise FormatError(f"{len(rows):,} layers; line 2 says {count}", path=path)
    for number, words in rows[: int(count)]:
        yield _layer(words, f"line {number}", path)


def _layer(words: list[str], where: str, path: str) -> LayerLine:
    if len(words) < 12:
        raise FormatError(f"{where}: {len(words)} words; a layer has 12", path=path)
    passes = []
    for at in (2, 5, 8):
        collective = words[at + 1]
        if collective != "NONE" and collective.split("_")[0] not in _COLLECTIVES:
            raise FormatError(f"{where}: no collective {collective[:30]!r}", path=path)
        passes.append(
            (_whole(words[at], where, path), collective, _whole(words[at + 2], where, path))
        )
    return LayerLine(words[0], tuple(passes), _whole(words[11], where, path))


def _whole(word: str, where: str, path: str) -> int:
    match = re.fullmatch(r"(\d{1,15})(\.\d{1,9})?", word)
    if match is None:
        raise FormatError(f"{where}: {word[:30]!r} is not a number from 0 on", path=path)
    return int(match[1])


def _forward(builder: TraceBuilder, layers: list[LayerLine], plan: LayerPlan) -> None:
    """Adds all layers forward, then backward."""
    last: list[int] = []
    for layer in layers:
        last = _part(builder, layer, 0, last, plan)
    for layer in reversed(layers):
        gradient = _compute(builder, layer, 2, last)
        summed = _communicate(builder, layer, 2, gradient, plan)
        if layer.update:
            builder.comp(f"{layer.name} update", duration_ns=layer.update, deps=summed)
        last = _part(builder, layer, 1, gradient, plan)


def _part(
    builder: TraceBuilder, layer: LayerLine, number: int, deps: list[int], plan: LayerPlan
) -> list[int]:
    """A pass of a layer: what is computed, then what is communicated; what follows waits for both."""
    return _communicate(builder, layer, number, _compute(builder, layer, number, deps), plan)


def _compute(builder: TraceBuilder, layer: LayerLine, number: int, deps: list[int]) -> list[int]:
    duration = layer.passes[number][0]
    return [builder.comp(f"{layer.name} {_PASSES[number]}", duration_ns=duration, deps=deps)]


def _communicate(
    builder: TraceBuilder, layer: LayerLine, number: int, deps: list[int], plan: LayerPlan
) -> list[int]:
    _, collective, size = layer.passes[number]
    kind, _, suffix = collective.partition("_")
    role = {"EP": "ep", "DP_EP": "dp_ep"}.get(suffix, "dp" if number == 2 else "tp")
    if plan.scheme in _WHOLE:
        role = "tp"
    members = plan.members(role)
    if collective == "NONE" or not size:
        return deps
    if members < 2:
        plan.alone[f"{collective} of {role}"] += 1
        return deps
    shard = size // members if kind == "ALLGATHER" else size
    name = f"{layer.name} {_PASSES[number]} {collective}"
    node = builder.collective(name, _COLLECTIVES[kind], max(shard, 1), deps=deps, pg_name=role)
    return [node]
