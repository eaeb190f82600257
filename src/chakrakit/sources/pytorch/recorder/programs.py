"""Records programs without changing them: a step ends with each optimizer step, or with a named call."""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

from .calls import FollowedCalls
from .collector import Collector

ENVIRONMENT = "CHAKRA_COLLECT"
"""Holds the settings, as JSON, for a program that is recorded without being changed."""


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then(module)` once `name` has been imported, without importing it itself."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self.then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install_from_environment() -> None:
    """Record this process as `CHAKRA_COLLECT` says: a step ends with each optimizer step.

    Where the settings name a call (`step_ends`), a step ends when it returns instead. Called from a
    `sitecustomize` that `chakra collect` puts first on the path. Nothing happens in processes that never
    take a step, such as launchers.
    """
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return
    settings = json.loads(text)
    sys.meta_path.insert(0, _AfterImport("torch.optim.optimizer", lambda m: _install(m, settings)))


def _install(module: ModuleType, settings: dict[str, Any]) -> None:
    state: dict[str, Any] = {}

    def after_step(optimizer: Any) -> None:
        first = state.setdefault("optimizer", id(optimizer))
        if first != id(optimizer):
            return  # several optimizers make one step: the first one counts
        if "collector" not in state:
            steps = tuple(settings["steps"])
            extra = {k: settings[k] for k in ("two_pass", "stacks") if k in settings}
            state["collector"] = Collector(settings["directory"], steps, **extra)
            # The first optimizer step is over when we get here: step 0 cannot be recorded.
            state["collector"].__enter__()
            atexit.register(state["collector"].finish)
        if not state["collector"].done:
            state["collector"].step()

    if settings.get("step_ends"):
        FollowedCalls(settings["step_ends"], lambda: after_step(None)).start()
        return
    # Around PyTorch's own wrapper: inside it the optimizer's range is still open, and a profiler
    # that stops inside a range corrupts its stack.
    optimizer_type: Any = module.Optimizer
    wrap = optimizer_type.profile_hook_step

    def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
        inner = wrap(function)

        @wraps(inner)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = inner(optimizer, *args, **kwargs)
            after_step(optimizer)
            return result

        return step

    optimizer_type.profile_hook_step = staticmethod(profile_hook_step)
