"""Element types: the many names that frameworks have for them, one short name each, and their size."""

from __future__ import annotations

_BYTES = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "fp4": 0.5,
    "int64": 8,
    "uint64": 8,
    "int32": 4,
    "uint32": 4,
    "int16": 2,
    "uint16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "mask": 1,
    "complex64": 8,
    "complex128": 16,
}
_SPELLINGS = {
    "fp64": ("float64", "double"),
    "fp32": ("float32", "float"),
    "bf16": ("bfloat16", "c10::bfloat16"),
    "fp16": ("float16", "half", "c10::half"),
    "fp8": (
        "fp8_e4m3",
        "fp8_e5m2",
        "float8_e4m3fn",
        "float8_e5m2",
        "c10::float8_e4m3fn",
        "c10::float8_e5m2",
    ),
    "int64": ("long", "long int"),
    "uint64": ("unsigned long",),
    "int32": ("int",),
    "uint32": ("unsigned int",),
    "int16": ("short", "short int"),
    "uint16": ("unsigned short",),
    "int8": ("char", "signed char"),
    "uint8": ("byte", "unsigned char"),
    "complex64": ("complexfloat", "c10::complex<float>"),
    "complex128": ("complexdouble", "c10::complex<double>"),
}
"""As PyTorch, C++ and others write them, in lower case."""
_NAMES = {text: name for name, texts in _SPELLINGS.items() for text in texts}


def dtype_name(dtype: str) -> str:
    """The short name of an element type; what is not known keeps its own, in lower case."""
    return _NAMES.get(dtype.lower(), dtype.lower())


def element_types() -> list[str]:
    """The short names of all element types whose size is known."""
    return list(_BYTES)


def element_bytes(dtype: str) -> float:
    """Bytes of an element; 0 for a type nobody knows."""
    return _BYTES.get(dtype_name(dtype), 0.0)
