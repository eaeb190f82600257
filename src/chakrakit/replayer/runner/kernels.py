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
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]\d+)")
_TYPES = {
    "u64": ctypes.c_uint64, "b64": ctypes.c_uint64, "s64": ctypes.c_int64, "u32": ctypes.c_uint32,
    "b32": ctypes.c_uint32, "s32": ctypes.c_int32, "f32": ctypes.c_float, "f64": ctypes.c_double,
    "u16": ctypes.c_uint16, "b16": ctypes.c_uint16, "s16": ctypes.c_int16, "u8": ctypes.c_uint8,
    "b8": ctypes.c_uint8, "s8": ctypes.c_int8,
}  # fmt: skip
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
            kinds = [_PARAMETER.search(text) for text in texts]
            unknown = [
                t.strip() for t, k in zip(texts, kinds, strict=True) if not k or k[1] not in _TYPES
            ]
            if unknown:
                raise KernelError(f"takes a parameter of an unknown type: {unknown[0]!r}")
            return [_TYPES[kind[1]] for kind in kinds if kind]
    raise KernelError(f"has no entry {name!r}")


class GeneratedKernel:
    """A loaded kernel of the current device; `launch` puts it on a stream."""

    def __init__(self, ptx: str, name: str, threads: int, shared: int) -> None:
        self.name, self.threads, self.shared = name, threads, shared
        self._types = parameter_types(ptx, name)
        self._driver = ctypes.CDLL("libcuda.so.1")
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
