"""Hooks into the script's own program: steps, phases, modules, checkpoints of activations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import checkpoint

from chakrakit.sources.capture.observing import BACKWARD, OPTIMIZER, RECOMPUTE, Whereabouts
from chakrakit.sources.capture.recording import Patches

_MOST_TURNS = 2
"""How often an optimizer may step before others are no longer waited for; see `_Steps`."""
_REPLACED = "_chakra_replaced_by"
_PLAIN_CHECKPOINT = checkpoint.checkpoint


def install(patches: Patches, where: Whereabouts, on_step: Callable[[], None]) -> list[Any]:
    """Follow the program; returns what must be removed at the end."""
    from torch.nn.modules import module
    from torch.optim import optimizer

    def within(phase: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(plain: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                with where.in_phase(phase):
                    return plain(*args, **kwargs)

            return run

        return make

    for owner, name in ((torch.autograd, "backward"), (torch.autograd, "grad")):
        patches.wrap(owner, name, within(BACKWARD))
    patches.wrap(torch.optim.Optimizer, "zero_grad", within(OPTIMIZER))
    patches.set(torch.nn.Module, "_apply", _apply)
    patches.replace(_PLAIN_CHECKPOINT, _checkpoint(where)(_PLAIN_CHECKPOINT))
    steps = _Steps(where, on_step)
    patches.wrap(torch.optim.Optimizer, "__init__", steps.wrap_init)
    patches.wrap(torch.profiler.profile, "step", steps.wrap_profiler)
    return [
        module.register_module_forward_pre_hook(where.enter),
        module.register_module_forward_hook(where.leave, always_call=True),
        optimizer.register_optimizer_step_pre_hook(steps.begin),
        optimizer.register_optimizer_step_post_hook(steps.end),
    ]


class _Steps:
    """A step ends with the optimizer's step; with several optimizers, when each has stepped.

    An optimizer that has not stepped when another steps for the third time is not waited for: it may never
    step. Optimizers that others call count as part of these.
    """

    def __init__(self, where: Whereabouts, on_step: Callable[[], None]) -> None:
        self.where, self.on_step = where, on_step
        self._optimizers: set[int] = set()
        self._stepped: Counter[int] = Counter()
        self._phases: list[Any] = []

    def wrap_init(self, plain: Callable[..., None]) -> Callable[..., None]:
        """Wraps an optimizer's constructor, so that its steps are expected."""

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            plain(optimizer, *args, **kwargs)
            self._optimizers.add(id(optimizer))

        return init

    def wrap_profiler(self, plain: Callable[..., None]) -> Callable[..., None]:
        """Wraps the profiler's own steps, which end a step where there is no optimizer."""

        def step(profiler: Any) -> None:
            plain(profiler)
            if not self._optimizers:
                self.on_step()

        return step

    def begin(self, *_: Any) -> None:
        phase = self.where.in_phase(OPTIMIZER)
        phase.__enter__()
        self._phases.append(phase)

    def end(self, optimizer: Any, *_: Any) -> None:
        self._phases.pop().__exit__(None, None, None)
        for group in optimizer.param_groups:
            self.where.updated |= {id(p): p for p in group["params"]}
        if self._phases:
            self._optimizers.discard(id(optimizer))
            return
        self._stepped[id(optimizer)] += 1
        if max(self._stepped.values()) > _MOST_TURNS:
            self._optimizers = set(self._stepped)
        if self._optimizers <= set(self._stepped):
            self._stepped.clear()
            self.on_step()


def _checkpoint(where: Whereabouts) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Counts what a checkpointed function does during backward as recomputation."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            def followed(*a: Any, **k: Any) -> Any:
                if where.phase not in (BACKWARD, RECOMPUTE):
                    return function(*a, **k)
                with where.in_phase(RECOMPUTE):
                    return function(*a, **k)

            kwargs.setdefault("preserve_rng_state", False)
            kwargs["preserve_rng_state"] = False  # there is no generator to put back
            kwargs.setdefault("use_reentrant", False)
            return plain(followed, *args, **kwargs)

        return run

    return make


def _apply(
    self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True
) -> torch.nn.Module:
    """`Module._apply` that changes fake parameters in place.

    The usual way swaps tensors, which fails for those with weak references, which
    fake-tensor modes hold.
    """
    if recurse:
        for child in self.children():
            child._apply(fn)
    for name, parameter in self._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            moved = fn(parameter)
        self._parameters[name] = _changed(parameter, moved)
        if parameter.grad is not None:
            with torch.no_grad():
                parameter.grad = fn(parameter.grad)
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = fn(buffer)
    return self


def _changed(parameter: Any, moved: Any) -> Any:
    """The parameter with new contents; a new parameter only where the old one cannot hold them.

    A parameter that leaves or enters the meta device, or is sharded over ranks, cannot; its replacement is
    remembered for modules that share it.
    """
    if moved is parameter:
        return parameter
    fake = isinstance(parameter, FakeTensor) and isinstance(moved, FakeTensor)
    if fake and "meta" not in (parameter.fake_device.type, moved.fake_device.type):
        parameter.data = moved
        parameter.fake_device = moved.fake_device
        return parameter
    replacement = parameter.__dict__.get(_REPLACED)
    if replacement is not None and (replacement.device, replacement.dtype) == (
        moved.device,
        moved.dtype,
    ):
        return replacement
    new = torch.nn.Parameter(moved, parameter.requires_grad)
    parameter.__dict__[_REPLACED] = new
    return new
