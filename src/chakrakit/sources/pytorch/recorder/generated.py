"""Kernels that a compiler generated for the program, as the GPU's driver takes them: PTX.

The observer names a kernel of Triton by the file that Inductor wrote it to (`kernel_file`) and lists what it
was given, so that code and arguments are all that a replay needs. Triton keeps the PTX of every kernel in its
cache, beside a description of how to launch it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 20
"""Of one kernel's PTX; those of fused code have some tens of kilobytes."""


def generated_code() -> dict[str, dict[str, Any]]:
    """Every kernel that Inductor has launched in this process, by the name of its file without `.py`.

    `arguments` are [name, type] in the order in which the kernel was called; what the compiler wrote into the
    code as a constant has the type `constexpr`.
    """
    cache: Any = sys.modules.get("torch._inductor.codecache")
    if cache is None:  # nothing was compiled
        return {}
    found = {}
    for module in list(cache.PyCodeCache.modules):
        for value in list(vars(module).values()):
            code = _code_of(value)
            # The module is that of the graph; each kernel has a file of its own.
            if code is not None:
                found[Path(str(value.filename)).stem] = code
    return found


def _code_of(kernel: Any) -> dict[str, Any] | None:
    """Code and launch of an autotuned kernel; None for all else, and where Triton did not keep it."""
    launchers = getattr(kernel, "launchers", None)
    if not launchers or not hasattr(kernel, "triton_meta"):
        return None
    try:
        launcher, name = launchers[0], kernel.fn.__name__
        home = _cache_folder(kernel) / launcher.cache_hash
        described = json.loads((home / f"{name}.json").read_text())
        ptx = (home / f"{name}.ptx").read_text()
        chosen = launcher.config.kwargs
        arguments = [
            [argument, str(kind)]
            for argument, kind in kernel.triton_meta["signature"].items()
            if argument not in chosen
        ]
    except (AttributeError, KeyError, OSError, ValueError, TypeError):
        return None  # another release keeps it elsewhere; the replay says that it spins
    if len(ptx) > _MOST_BYTES:
        return None
    return {
        "name": name,
        "ptx": ptx,
        "arguments": arguments,
        "threads": 32 * int(described["num_warps"]),
        "shared": int(described["shared"]),
        "plain": not described.get("global_scratch_size") and described.get("num_ctas", 1) == 1,
    }


def _cache_folder(kernel: Any) -> Path:
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

    device = kernel.triton_meta.get("device")
    return Path(triton_cache_dir(int(getattr(device, "index", 0) or 0)))
