"""What each layer of a model does when it is run on the meta device: FLOPs, and matrices that it meets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_PLACES = ("layer_idx", "layer_id", "layer_index", "layer_number", "block_idx", "idx")
"""Attributes that tell which layer a module belongs to, and nothing of what it does."""


@dataclass
class LayerWork:
    """FLOPs by layer; -1 is what is outside of layers. `met` are the modules that ran in it."""

    flops: dict[int, int] = field(default_factory=dict)
    current: int = -1
    met: set[int] = field(default_factory=set)

    def add(self, flops: int) -> None:
        """Work of the layer that is running."""
        self.flops[self.current] = self.flops.get(self.current, 0) + flops


def twins(layers: Sequence[Any], kinds: Sequence[Any]) -> list[int]:
    """For each layer the first that is built alike and of the same kind, which is run in its place."""
    first: dict[Any, int] = {}
    seen: set[int] = set()
    alike = []
    for number, (layer, kind) in enumerate(zip(layers, kinds, strict=True)):
        alike.append(first.setdefault((_build(layer, seen), str(kind)), number))
        seen |= {id(p) for p in layer.parameters()}
    return alike


def _build(layer: Any, seen: set[int]) -> tuple[Any, ...]:
    """Everything that tells two layers apart: modules, parameters that are new, and plain attributes."""
    return tuple(
        (
            name,
            type(module).__qualname__,
            tuple(
                (n, tuple(p.shape), id(p) in seen)
                for n, p in module.named_parameters(recurse=False)
            ),
            tuple(
                (n, v)
                for n, v in sorted(vars(module).items())
                if n not in _PLACES and isinstance(v, int | float | str | bool | None)
            ),
        )
        for name, module in layer.named_modules()
    )


@contextmanager
def counting(
    torch: Any, work: LayerWork, layers: Sequence[Any], alike: Sequence[int] = ()
) -> Iterator[None]:
    """Counts FLOPs of products by the layer that is running.

    A layer that has a twin before it is not run: it hands on its input, and its work is its twin's.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    scalar = torch.ops.aten._local_scalar_dense.default
    convolved_back = torch.ops.aten.convolution_backward.default

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is scalar and args[0].is_meta and args[0].dtype == torch.bool:
                return True  # "is nothing masked, nothing packed?": plain text has neither
            out = func(*args, **(kwargs or {}))
            count = flop_registry.get(func._overloadpacket)
            if func is convolved_back:
                work.add(_convolved_back(*args[:3]))
            elif count is not None:
                work.add(int(count(*args, **(kwargs or {}), out_val=out)))
            return out

    with twins_left_out(torch, work, layers, alike), Counter():
        yield
    for number, twin in enumerate(alike):
        work.flops[number] = work.flops.get(twin, 0)


@contextmanager
def twins_left_out(
    torch: Any, work: LayerWork, layers: Sequence[Any], alike: Sequence[int]
) -> Iterator[None]:
    """Notes in `work` which layer runs; one that has a twin before it hands on its input."""
    hooks = []
    outputs: dict[int, Any] = {}
    own = {number: vars(layer).get("forward") for number, layer in enumerate(layers)}
    for number, layer in enumerate(layers):
        hooks.append(layer.register_forward_pre_hook(_enter(work, number), with_kwargs=True))
        hooks.append(layer.register_forward_hook(_leave(work, number, outputs)))
        for module in layer.modules():
            hooks.append(module.register_forward_hook(_meet(work)))
        if alike and alike[number] != number:
            layer.forward = _standing_in(torch, layer.forward, alike[number], outputs)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for number, layer in enumerate(layers):
            if alike and alike[number] != number:
                if own[number] is None:
                    del layer.forward
                else:
                    layer.forward = own[number]


def _standing_in(torch: Any, forward: Any, twin: int, outputs: dict[int, Any]) -> Any:
    """What a layer with a twin does: its input in place of its output, where both look alike."""

    def passed_on(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("hidden_states")
        made = outputs.get(twin)
        main = made[0] if isinstance(made, tuple) and made else made
        same = (
            isinstance(given, torch.Tensor)
            and isinstance(main, torch.Tensor)
            and (given.shape, given.dtype) == (main.shape, main.dtype)
        )
        if not same:
            return forward(*args, **kwargs)
        return (given, *made[1:]) if isinstance(made, tuple) else given

    return passed_on


def _convolved_back(grad: Any, _x: Any, weight: Any) -> int:
    """Two products for each of forward; PyTorch's own counter multiplies by the groups once more."""
    return int(2 * 2 * grad.numel() * weight.numel() // weight.shape[0])


def _enter(work: LayerWork, number: int) -> Any:
    def hook(_module: Any, _args: Any, _kwargs: Any) -> None:
        work.current = number

    return hook


def _leave(work: LayerWork, number: int, outputs: dict[int, Any]) -> Any:
    def hook(_module: Any, _args: Any, out: Any) -> None:
        outputs[number] = out
        work.current = -1

    return hook


def _meet(work: LayerWork) -> Any:
    def hook(module: Any, _args: Any, _out: Any) -> None:
        work.met.add(id(module))

    return hook
