"""`torch.compile`: what is compiled runs as it is, and its operators are noted as a compiled call's.

The kernels that a compiler would make of them are worked out from the recording (`capture/compiled`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import torch

from chakrakit.sources.capture.observing import Recorder, Whereabouts
from chakrakit.sources.capture.recording import Patches, in_pytorch

_FUSING = ("inductor",)
"""Backends that make kernels of several operators; others run operators one by one."""
_NOTE = (
    "torch.compile: kernels are those of a rule of fusion, not of the compiler itself; "
    "docs/capture.md says how far they are from recorded ones"
)
_GRAPHS = (
    "torch.compile: CUDA graphs are not captured; `chakra transform --pass graphed` is one launch"
)


def install(patches: Patches, recorder: Recorder, where: Whereabouts) -> None:
    """Replace the compiler by notes of what is compiled."""

    def compiled(model: Any, options: dict[str, Any]) -> Any:
        patches.note("torch.compile")
        if options.get("disable") or options.get("backend", "inductor") not in _FUSING:
            return model
        patches.warn(_NOTE)
        if options.get("mode") in ("reduce-overhead", "max-autotune"):
            patches.warn(_GRAPHS)
        recorder.follow_deaths()
        if not isinstance(model, torch.nn.Module):
            return _as_one_call(model, recorder, where)
        if id(model) not in where.compiled_modules:
            where.compiled_modules.add(id(model))
            returned = model.register_forward_hook(lambda _, __, out: recorder.note_returned(out))
            patches.on_undo(returned.remove)
        return model

    def compile_(model: Any = None, **options: Any) -> Any:
        return (lambda f: compiled(f, options)) if model is None else compiled(model, options)

    def compile_module(self: torch.nn.Module, *_: Any, **options: Any) -> None:
        compiled(self, options)

    def is_compiling(plain: Callable[[], bool]) -> Callable[[], bool]:
        """Libraries go other ways in what is compiled: transformers writes its masks out there."""

        def asked():  # type: ignore[no-untyped-def]
            return plain() or (where.inside_compiled and not in_pytorch(sys._getframe(1)))

        asked.__annotations__ = {"return": bool}  # as TorchScript, which optimizers use, reads it
        return cast("Callable[[], bool]", torch.jit.ignore(asked))

    for name in ("is_compiling", "is_dynamo_compiling"):
        patches.wrap(torch.compiler, name, is_compiling)
    patches.set(torch, "compile", compile_)
    patches.set(torch.nn.Module, "compile", compile_module)


def _as_one_call(
    function: Callable[..., Any], recorder: Recorder, where: Whereabouts
) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with where.in_compiled():
            out = function(*args, **kwargs)
        recorder.note_returned(out)
        return out

    return run
