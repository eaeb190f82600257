"""Kernels that a compiler generated, launched from their PTX by the GPU's driver.

Nothing but code for the device is taken from a recording: the driver compiles it, and it reaches
the memory that this process has on the GPU and no other. That is still somebody's code, so a rank loads none
unless whoever started it said so.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$][\w$]*)\s*\(([^)]*)\)")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf])(\d+)\b")
_FLOATS = {"32": ctypes.c_float, "64": ctypes.c_double}
_MOST_STATIC = 48 * 1024
"""Shared memory that a kernel may have without asking for more."""
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of cuda.h


class KernelError(Exception):
    """A kernel that cannot be launched; the text says why."""


def parameter_types(ptx: str, name: str) -> list[Any]:
    """Types of the parameters of an entry, in order, as ctypes has them."""
    for entry in _ENTRY.finditer(ptx):
        if entry[1] == name:
            texts = [text for text in entry[2].split(",") if text.strip()]
            return [_parameter_type(text.strip()) for text in texts]
    raise KernelError(f"has no entry {name!r}")


def _parameter_type(declared: str) -> Any:
    """`.param .u32 k_param_1` as ctypes has it: a whole number or bits, of this width."""
    found = _PARAMETER.match(declared)
    letter, bits = found.groups() if found else ("f", "")
    kind = _FLOATS.get(bits) if letter == "f" else getattr(ctypes, f"c_uint{bits}", None)
    if kind is None:
        raise KernelError(f"takes a parameter of an unknown type: {declared!r}")
    return kind


def driver() -> Any:
    """The library of the GPU's driver; an OSError where there is none."""
    return ctypes.CDLL("libcuda.so.1")


class GeneratedKernel:
    """A loaded kernel of the current device; `launch` puts it on a stream."""

    def __init__(self, ptx: str, name: str, threads: int, shared: int) -> None:
        self.name, self.threads, self.shared = name, threads, shared
        self._types = parameter_types(ptx, name)
        self._driver = driver()
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        code = ptx.encode() + b"\0"
        self._do("cuModuleLoadData", ctypes.byref(self._module), code)
        self._do("cuModuleGetFunction", ctypes.byref(self._function), self._module, name.encode())
        if shared > _MOST_STATIC:
            self._do("cuFuncSetAttribute", self._function, _DYNAMIC_SHARED, shared)

    def _do(self, call: str, *arguments: Any) -> None:
        result = getattr(self._driver, call)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(result, ctypes.byref(text))
            raise KernelError(f"{call}: {(text.value or b'?').decode()} ({result})")

    def _prepared(self, values: list[int | float]) -> Any:
        """Arguments as the driver takes them; parameters beyond those given are scratch memory of no size."""
        if len(values) > len(self._types):
            raise KernelError(f"takes {len(self._types)} parameters, got {len(values)}")
        padded = [*values, *[0] * (len(self._types) - len(values))]
        kept = [kind(value) for kind, value in zip(self._types, padded, strict=True)]
        pointers = (ctypes.c_void_p * max(1, len(kept)))(*[ctypes.addressof(k) for k in kept])
        return pointers, kept

    def launch(self, grid: list[int], stream: int, values: list[int | float]) -> None:
        """Put it on a stream, given by its handle; tensors are given by their addresses."""
        pointers, _kept = self._prepared(values)
        x, y, z = grid
        self._do(
            "cuLaunchKernel", self._function, x, y, z, self.threads, 1, 1, self.shared,
            ctypes.c_void_p(stream), pointers, None,
        )  # fmt: skip
