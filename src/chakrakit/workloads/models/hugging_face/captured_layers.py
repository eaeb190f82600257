"""The layers of a model on the meta device: where they are, their matrices, their experts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Matrix
from chakrakit.workloads.models.hugging_face.layer_runs import twins
from chakrakit.workloads.models.hugging_face.meta_device import CURE

_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk",
          "router_top_k", "num_selected_experts", "moe_top_k", "top_k")  # fmt: skip
"""Names under which configurations say how many experts a token meets."""


def parameters_of(module: Any) -> int:
    """Parameters of a module; those that are shared count once."""
    return sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())


def layer_list(torch: Any, model: Any, depth: int | None, path: Path) -> tuple[str, Any]:
    """The list of layers, and its name: as long as the model is deep, and nearest to the table of words.

    Of several the largest; where none is that long, because a part of the model has a depth of its own,
    of all lists.
    """
    words = _place_of_words(model)
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) and parameters_of(module)
    ]
    fitting = [entry for entry in lists if len(entry[1]) == depth] or lists
    if not fitting:
        raise ConfigError(f"{path}: no list of layers in the model; {CURE}")
    return max(fitting, key=lambda entry: (_shared(entry[0], words), parameters_of(entry[1])))


def _place_of_words(model: Any) -> str:
    """The name of the table of words; empty where a part of a model has none."""
    try:
        table = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return ""
    return next((name for name, module in model.named_modules() if module is table), "")


def _shared(name: str, other: str) -> int:
    """How many parts two names have in common from the beginning."""
    pairs = zip(name.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class CapturedLayers:
    """A list of layers of a model, of which those that are built alike are looked at once."""

    def __init__(
        self, torch: Any, model: Any, config: Any, path: Path, depth: int | None = None
    ) -> None:
        self.torch, self.config, self.path = torch, config, path
        depth = depth or getattr(config, "num_hidden_layers", None)
        self.place, self.layers = layer_list(torch, model, depth, path)
        types = list(getattr(config, "layer_types", None) or [])
        kinds = types if len(types) == len(self.layers) else [""] * len(self.layers)
        self.kinds = kinds
        self.alike = twins(self.layers, kinds)
        self.experts = self._expert_modules() if self.top_k else []
        self._check_experts()

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def top_k(self) -> int:
        """How many experts a token meets; 0 where the configuration names none."""
        inside = [
            v for v in vars(self.config).values() if hasattr(v, "to_dict")
        ]  # DBRX's ffn_config
        values = (getattr(part, name, None) for part in (self.config, *inside) for name in _TOP_K)
        return next((v for v in values if isinstance(v, int) and v > 0), 0)

    def _expert_modules(self) -> list[Any]:
        """Modules that hold the matrices of all experts of a layer: the most that any module holds.

        Fewer stacked matrices are those of experts that every token meets.
        """
        counts = {
            m: p[0] for layer in self.layers for m in layer.modules() if (p := self._stack(m))
        }
        return [module for module, count in counts.items() if count == max(counts.values())]

    def _stack(self, module: Any) -> tuple[int, list[tuple[str, Any]]] | None:
        """How many matrices each parameter of a module stacks, and those parameters; None if none does."""
        if isinstance(module, self.torch.nn.modules.conv._ConvNd):
            return None
        stacked = [(n, p) for n, p in module.named_parameters(recurse=False) if p.dim() == 3]
        return (int(stacked[0][1].shape[0]), stacked) if stacked else None

    def _check_experts(self) -> None:
        """Modules that are called experts must be known as such, or every token would meet all of them."""
        names = [
            n for n, m in self.layers.named_modules() if n.endswith("experts") and parameters_of(m)
        ]
        if names and not self.top_k:
            raise ConfigError(
                f"{self.path}: {self.place}.{names[0]} holds experts, and how many of them a token meets is "
                f"under none of {', '.join(_TOP_K)}; {CURE}"
            )

    def leave_out_experts(self) -> None:
        """Experts hand on what they get: which of them a token meets depends on values."""
        for module in self.experts:
            module.forward = lambda hidden, *_, **__: self.torch.empty_like(hidden)

    def window(self, number: int) -> int:
        """The window of a layer whose type says that it slides."""
        if "sliding" in str(self.kinds[number]):
            return int(getattr(self.config, "sliding_window", 0) or 0)
        return 0

    def repeated(self, number: int, cache: Any) -> int:
        """How often a layer's cache holds the same keys; engines hold them once.

        Falcon's modules copy the keys of a group for every head that asks them before they are kept.
        """
        kept = {int(t.shape[1]) for t in cache_tensors(self.torch, cache, number) if t.dim() == 4}
        for module in self.layers[number].modules():
            heads, shared = (getattr(module, n, 0) for n in ("num_heads", "num_kv_heads"))
            if shared and shared < heads and heads % shared == 0 and kept == {heads}:
                return int(heads // shared)
        return 1

    def matrices(self, number: int, met: Collection[int]) -> list[Matrix]:
        """The matrices of a layer that its tokens meet: `met` has the modules that ran."""
        matrices = []
        experts = {id(module) for module in self.experts}
        before = self._before(number)
        for name, module in self.layers[number].named_modules():
            if id(module) in experts:
                matrices += self._stacked(name, module)
            elif id(module) not in met:
                continue
            elif isinstance(module, self.torch.nn.Linear):
                cut: Any = next((c for p, c in self._plan.items() if p.fullmatch(name)), "")
                matrices.append(
                    Matrix(
                        name=name,
                        inputs=module.in_features,
                        outputs=module.out_features,
                        cut=cut,
                        tied=id(module.weight) in before,
                    )
                )
            elif self.experts and self._stack(module):
                matrices += [
                    one.replace(name=f"{one.name}.{i}", experts=0)
                    for one in self._stacked(name, module)
                    for i in range(one.experts)
                ]
        return matrices

    def own_parameters(self, number: int) -> int:
        """Parameters of a layer that no layer before it has."""
        before = self._before(number)
        own = {id(p): p.numel() for p in self.layers[number].parameters() if id(p) not in before}
        return sum(own.values())

    def _before(self, number: int) -> set[int]:
        return {id(p) for layer in self.layers[:number] for p in layer.parameters()}

    def _stacked(self, name: str, module: Any) -> list[Matrix]:
        found = self._stack(module)
        return [
            _expert_matrix(f"{name}.{n}".strip("."), p, self.config.hidden_size)
            for n, p in (found[1] if found else [])
        ]

    @cached_property
    def _plan(self) -> Mapping[re.Pattern[str], Any]:
        """How transformers itself cuts matrices over ranks; without a plan every rank holds all."""
        plan = getattr(self.config, "base_model_tp_plan", None) or {}
        cuts = {}
        for name, style in plan.items():
            _, star, inside = str(name).partition("layers.*.")
            if star:
                cut = (
                    "columns"
                    if "colwise" in str(style)
                    else "rows"
                    if "rowwise" in str(style)
                    else ""
                )
                cuts[re.compile(re.escape(inside).replace(r"\*", r"\d+"))] = cut
        return cuts


def _expert_matrix(name: str, parameter: Any, hidden: int) -> Matrix:
    """Matrices of all experts: what makes them wide comes first, what brings tokens back last."""
    count, one, other = (int(n) for n in parameter.shape)
    back = "down" in name or "output" in name or name.endswith("w2")
    wide = other if one == hidden else one
    inputs, outputs = (wide, hidden) if back else (hidden, wide)
    if {one, other} != {inputs, outputs}:  # experts that work on a smaller token
        inputs, outputs = (one, other) if back else (other, one)
    return Matrix(name=name, inputs=inputs, outputs=outputs, experts=count)


def cache_elements(torch: Any, cache: Any, number: int) -> int:
    """Elements that a layer's cache holds for one sequence."""
    return sum(t.numel() for t in cache_tensors(torch, cache, number))


def cache_tensors(torch: Any, cache: Any, number: int) -> list[Any]:
    """What a layer's cache holds."""
    layers = getattr(cache, "layers", None)
    if layers is None or number >= len(layers):
        return []
    values = vars(layers[number]).values()
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    tensors += [t for v in values if isinstance(v, dict | list) for t in _tensors(torch, v)]
    return list({id(t): t for t in tensors if t.is_floating_point()}.values())


def _tensors(torch: Any, values: Any) -> list[Any]:
    inside = values.values() if isinstance(values, dict) else values
    return [t for t in inside if isinstance(t, torch.Tensor)]
