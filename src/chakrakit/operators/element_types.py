"""Element types: how wide each is, at which rate a device computes in it, and how everybody spells it.

One entry of `TYPES` is all that a new type needs; every room asks the functions below. A type is known by
its short name (`bf16`), which generated workloads, machines and results use, and found by any spelling:
PyTorch's, C++'s, XLA's, NumPy's and JAX's, NCCL's, checkpoints' and serving engines'. Case does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from chakrakit.errors import ConfigError, nearest

Kind = Literal["float", "int", "bool", "complex", "other"]
"""`other`: quantized numbers, several numbers in one element, and bits without a meaning."""

Ecosystem = Literal["torch", "xla", "nccl"]
"""Who numbers element types: PyTorch's ScalarType, XLA's PrimitiveType, NCCL's ncclDataType_t."""

WorkingType = Literal["bf16", "fp16", "fp32"]
"""What parameters and activations of a model are kept in, the most usual first."""


class ElementType(msgspec.Struct, frozen=True):
    """One element type. A spelling is empty, and a number None, where an ecosystem has no such type."""

    name: str
    """The short name."""
    bits: int
    """Of one element in memory; scales that belong to blocks of elements are not counted."""
    kind: Kind
    computes_as: str = ""
    """The type at whose rate a device computes, where device files have no rate for each such type."""
    without_units: str = ""
    """The type that products are computed in where a device has no units for this one."""
    torch: str = ""
    """The attribute of `torch`."""
    torch_code: int | None = None
    """The number of PyTorch's ScalarType, as recorded among an operator's arguments."""
    scalar: str = ""
    """The name of PyTorch's ScalarType, as recorded with collectives."""
    cpp: str = ""
    """The C++ type as GCC writes it, as recorded with an operator's tensors."""
    clang: str = ""
    """The same as Clang writes it, where that differs."""
    hlo: str = ""
    """XLA's name in an HLO module."""
    hlo_code: int | None = None
    """The number of XLA's PrimitiveType."""
    numpy: str = ""
    """The name in NumPy with ml_dtypes, and in JAX."""
    nccl: str = ""
    nccl_code: int | None = None
    also: tuple[str, ...] = ()
    """Further spellings: C's, other compilers', checkpoints', engines' options."""

    @property
    def rate(self) -> str:
        """The type whose rate in a device file this one computes at."""
        return self.computes_as or self.name

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements next to each other, rounded up to a whole byte."""
        return -(-elements * self.bits // 8)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to write the type, the short name first, in the ecosystems' own case."""
        torch_spellings = (self.name, self.torch, self.scalar, self.cpp, self.clang)
        other_spellings = (self.hlo, self.numpy, self.nccl, *self.also)
        return tuple(dict.fromkeys(text for text in (*torch_spellings, *other_spellings) if text))


_T = ElementType
# PyTorch's numbers and C++ names are those that the observer of PyTorch 2.13 records. XLA's numbers are those
# of xla_data.proto, NCCL's those of nccl.h since 2.24. Not among the spellings: `f8`, `i4` and `i8`, which
# count bytes for NumPy and bits for others.
# fmt: off
TYPES: tuple[ElementType, ...] = (
    # Floating point, wide to narrow.
    _T("fp64", 64, "float", torch="float64", torch_code=7, scalar="Double", cpp="double", hlo="f64",
       hlo_code=12, numpy="float64", nccl="ncclFloat64", nccl_code=8, also=("ncclDouble",)),
    _T("fp32", 32, "float", torch="float32", torch_code=6, scalar="Float", cpp="float", hlo="f32",
       hlo_code=11, numpy="float32", nccl="ncclFloat32", nccl_code=7, also=("ncclFloat",)),
    # Products that read 19 bits of elements that have 32 in memory.
    _T("tf32", 32, "float", without_units="fp32"),
    _T("bf16", 16, "float", torch="bfloat16", torch_code=15, scalar="BFloat16", cpp="c10::BFloat16",
       hlo="bf16", hlo_code=16, numpy="bfloat16", nccl="ncclBfloat16", nccl_code=9),
    _T("fp16", 16, "float", torch="float16", torch_code=5, scalar="Half", cpp="c10::Half", hlo="f16",
       hlo_code=10, numpy="float16", nccl="ncclFloat16", nccl_code=6, also=("ncclHalf",)),
    _T("fp8", 8, "float", also=("float8",)),  # where nobody says how its bits are divided
    _T("fp8_e4m3", 8, "float", "fp8", torch="float8_e4m3fn", torch_code=24, scalar="Float8_e4m3fn",
       cpp="c10::Float8_e4m3fn", hlo="f8e4m3fn", hlo_code=20, numpy="float8_e4m3fn",
       nccl="ncclFloat8e4m3", nccl_code=10, also=("fp8_e4m3fn", "f8_e4m3", "e4m3")),
    _T("fp8_e5m2", 8, "float", "fp8", torch="float8_e5m2", torch_code=23, scalar="Float8_e5m2",
       cpp="c10::Float8_e5m2", hlo="f8e5m2", hlo_code=19, numpy="float8_e5m2", nccl="ncclFloat8e5m2",
       nccl_code=11, also=("f8_e5m2", "e5m2")),
    _T("fp8_e4m3fnuz", 8, "float", "fp8", torch="float8_e4m3fnuz", torch_code=26,
       scalar="Float8_e4m3fnuz", cpp="c10::Float8_e4m3fnuz", hlo="f8e4m3fnuz", hlo_code=25,
       numpy="float8_e4m3fnuz"),
    _T("fp8_e5m2fnuz", 8, "float", "fp8", torch="float8_e5m2fnuz", torch_code=25,
       scalar="Float8_e5m2fnuz", cpp="c10::Float8_e5m2fnuz", hlo="f8e5m2fnuz", hlo_code=24,
       numpy="float8_e5m2fnuz"),
    _T("fp8_e4m3b11fnuz", 8, "float", "fp8", hlo="f8e4m3b11fnuz", hlo_code=23,
       numpy="float8_e4m3b11fnuz"),
    _T("float8_e4m3", 8, "float", "fp8", hlo="f8e4m3", hlo_code=28, numpy="float8_e4m3"),  # with infinities
    _T("fp8_e3m4", 8, "float", "fp8", hlo="f8e3m4", hlo_code=29, numpy="float8_e3m4"),
    _T("fp8_e8m0", 8, "float", torch="float8_e8m0fnu", torch_code=44, scalar="Float8_e8m0fnu",
       cpp="c10::Float8_e8m0fnu", hlo="f8e8m0fnu", hlo_code=33, numpy="float8_e8m0fnu",
       also=("f8_e8m0", "ue8m0")),
    _T("mxfp8", 8, "float", "fp8"),
    _T("fp6", 6, "float", also=("float6",)),
    _T("fp6_e2m3", 6, "float", "fp6", numpy="float6_e2m3fn", also=("e2m3",)),
    _T("fp6_e3m2", 6, "float", "fp6", numpy="float6_e3m2fn", also=("e3m2",)),
    _T("mxfp6", 6, "float", "fp6"),
    _T("fp4", 4, "float", also=("float4",)),
    _T("fp4_e2m1", 4, "float", "fp4", hlo="f4e2m1fn", hlo_code=32, numpy="float4_e2m1fn",
       also=("e2m1",)),
    _T("mxfp4", 4, "float", "fp4"),
    _T("nvfp4", 4, "float", "fp4"),
    # Whole numbers.
    _T("int64", 64, "int", torch="int64", torch_code=4, scalar="Long", cpp="long int", clang="long",
       hlo="s64", hlo_code=5, numpy="int64", nccl="ncclInt64", nccl_code=4,
       also=("int64_t", "i64", "long long", "long long int")),
    _T("uint64", 64, "int", torch="uint64", torch_code=29, scalar="UInt64", cpp="long unsigned int",
       clang="unsigned long", hlo="u64", hlo_code=9, numpy="uint64", nccl="ncclUint64", nccl_code=5,
       also=("uint64_t",)),
    _T("int32", 32, "int", torch="int32", torch_code=3, scalar="Int", cpp="int", hlo="s32", hlo_code=4,
       numpy="int32", nccl="ncclInt32", nccl_code=2, also=("int32_t", "i32", "ncclInt")),
    _T("uint32", 32, "int", torch="uint32", torch_code=28, scalar="UInt32", cpp="unsigned int",
       hlo="u32", hlo_code=8, numpy="uint32", nccl="ncclUint32", nccl_code=3, also=("uint32_t",)),
    _T("int16", 16, "int", torch="int16", torch_code=2, scalar="Short", cpp="short int", clang="short",
       hlo="s16", hlo_code=3, numpy="int16", also=("int16_t", "i16")),
    _T("uint16", 16, "int", torch="uint16", torch_code=27, scalar="UInt16", cpp="short unsigned int",
       clang="unsigned short", hlo="u16", hlo_code=7, numpy="uint16", also=("uint16_t",)),
    _T("int8", 8, "int", torch="int8", torch_code=1, scalar="Char", cpp="signed char", hlo="s8",
       hlo_code=2, numpy="int8", nccl="ncclInt8", nccl_code=0, also=("int8_t", "ncclChar")),
    _T("uint8", 8, "int", torch="uint8", torch_code=0, scalar="Byte", cpp="unsigned char", hlo="u8",
       hlo_code=6, numpy="uint8", nccl="ncclUint8", nccl_code=1, also=("uint8_t",)),
    _T("mxint8", 8, "int", "int8"),
    _T("int4", 4, "int", torch="int4", torch_code=40, scalar="Int4", cpp="c10::dummy_int1_7_t<4>",
       hlo="s4", hlo_code=21, numpy="int4"),
    _T("uint4", 4, "int", torch="uint4", torch_code=33, scalar="UInt4", cpp="c10::dummy_uint1_7_t<4>",
       hlo="u4", hlo_code=22, numpy="uint4"),
    _T("int2", 2, "int", torch="int2", torch_code=38, scalar="Int2", cpp="c10::dummy_int1_7_t<2>",
       hlo="s2", hlo_code=26, numpy="int2"),
    _T("uint2", 2, "int", torch="uint2", torch_code=31, scalar="UInt2", cpp="c10::dummy_uint1_7_t<2>",
       hlo="u2", hlo_code=27, numpy="uint2"),
    _T("int1", 1, "int", torch="int1", torch_code=37, scalar="Int1", cpp="c10::dummy_int1_7_t<1>",
       hlo="s1", hlo_code=30, numpy="int1"),
    _T("uint1", 1, "int", torch="uint1", torch_code=30, scalar="UInt1", cpp="c10::dummy_uint1_7_t<1>",
       hlo="u1", hlo_code=31, numpy="uint1"),
    # Truth values.
    _T("bool", 8, "bool", torch="bool", torch_code=11, scalar="Bool", cpp="bool", hlo="pred", hlo_code=1,
       numpy="bool"),
    _T("mask", 8, "bool"),  # which elements dropout keeps, in generated workloads
    # Complex numbers.
    _T("complex32", 32, "complex", "fp16", torch="complex32", torch_code=8, scalar="ComplexHalf",
       cpp="c10::complex<c10::Half>", also=("chalf",)),
    _T("complex64", 64, "complex", "fp32", torch="complex64", torch_code=9, scalar="ComplexFloat",
       cpp="c10::complex<float>", hlo="c64", hlo_code=15, numpy="complex64", also=("cfloat",)),
    _T("complex128", 128, "complex", "fp64", torch="complex128", torch_code=10, scalar="ComplexDouble",
       cpp="c10::complex<double>", hlo="c128", hlo_code=18, numpy="complex128", also=("cdouble",)),
    # PyTorch's own; of those whose names end in x and a number, one element holds so many numbers.
    _T("float4_e2m1fn_x2", 8, "other", "fp4", torch="float4_e2m1fn_x2", torch_code=45,
       scalar="Float4_e2m1fn_x2", cpp="c10::Float4_e2m1fn_x2"),
    _T("qint8", 8, "other", "int8", torch="qint8", torch_code=12, scalar="QInt8", cpp="c10::qint8"),
    _T("quint8", 8, "other", torch="quint8", torch_code=13, scalar="QUInt8", cpp="c10::quint8"),
    _T("qint32", 32, "other", torch="qint32", torch_code=14, scalar="QInt32", cpp="c10::qint32"),
    _T("quint4x2", 8, "other", torch="quint4x2", torch_code=16, scalar="QUInt4x2", cpp="c10::quint4x2"),
    _T("quint2x4", 8, "other", torch="quint2x4", torch_code=17, scalar="QUInt2x4", cpp="c10::quint2x4"),
    _T("bits1x8", 8, "other", torch="bits1x8", torch_code=18, scalar="Bits1x8", cpp="c10::bits1x8"),
    _T("bits2x4", 8, "other", torch="bits2x4", torch_code=19, scalar="Bits2x4", cpp="c10::bits2x4"),
    _T("bits4x2", 8, "other", torch="bits4x2", torch_code=20, scalar="Bits4x2", cpp="c10::bits4x2"),
    _T("bits8", 8, "other", torch="bits8", torch_code=21, scalar="Bits8", cpp="c10::bits8"),
    _T("bits16", 16, "other", torch="bits16", torch_code=22, scalar="Bits16", cpp="c10::bits16"),
)
# fmt: on

_BY_SPELLING = {text.lower().removeprefix("c10::"): t for t in TYPES for text in t.spellings}
_BY_CPP = {text: t for t in TYPES for text in (t.cpp, t.clang) if text}
_BY_CODE: dict[Ecosystem, dict[int, ElementType]] = {
    "torch": {t.torch_code: t for t in TYPES if t.torch_code is not None},
    "xla": {t.hlo_code: t for t in TYPES if t.hlo_code is not None},
    "nccl": {t.nccl_code: t for t in TYPES if t.nccl_code is not None},
}


PRODUCT_MARKS = {"fp64": ".fp64", "fp32": ".fp32", "tf32": ".tf32", "fp8": ".8", "fp4": ".4"}
"""What profiles add to the names of products in other types than those of 16 bits, as in `gemm.8.nt`."""
TIMED_AS_THEY_ARE = ("bf16", "fp32")
"""Types that every profile times in products of their own."""
IEEE = "ieee"
"""What profiles add to the names of classes in fp32 that they timed in TF32, for work that may not round."""


def find_type(spelling: str) -> ElementType | None:
    """The type of that spelling, with or without `torch.` or `c10::` before it; None if it is unknown."""
    return _BY_SPELLING.get(spelling.lower().removeprefix("torch.").removeprefix("c10::"))


def element_type(spelling: str) -> ElementType:
    """The type of that spelling; a ConfigError names the nearest types otherwise."""
    element = find_type(spelling)
    if element is None:
        raise ConfigError(
            f"no element type {spelling!r}; {nearest(spelling, [t.name for t in TYPES])}"
        )
    return element


def type_of_cpp(text: str) -> ElementType | None:
    """The type that PyTorch records a tensor's elements as, in its own case; None for anything else.

    Next to tensors of `int`, recorded arguments are numbers of type `Int`, which are not tensors.
    """
    return _BY_CPP.get(text)


def type_of_code(ecosystem: Ecosystem, code: int) -> ElementType | None:
    """The type that an ecosystem gives this number; None where no type here has it."""
    return _BY_CODE[ecosystem].get(code)


def dtype_name(spelling: str) -> str:
    """The short name of a type; an unknown spelling stays, in lower case."""
    element = find_type(spelling)
    return spelling.lower() if element is None else element.name


def rate_name(spelling: str) -> str:
    """The type whose rate in a device file this one computes at; an unknown spelling stays, in lower case."""
    element = find_type(spelling)
    return spelling.lower() if element is None else element.rate


def element_bytes(spelling: str) -> float:
    """Bytes of an element, 0.5 for four bits; 0 for an unknown spelling."""
    element = find_type(spelling)
    return 0.0 if element is None else element.bits / 8


def is_complex(spelling: str) -> bool:
    """Whether a type's elements are complex numbers."""
    element = find_type(spelling)
    return element is not None and element.kind == "complex"


def figure_for(figures: Mapping[str, float], spelling: str) -> float | None:
    """A device's figure for a type, else for the one at whose rate it computes; None where it has neither.

    A device without units for a type computes in the type that it has instead.
    """
    element = find_type(spelling)
    others = () if element is None else (element.rate, element.without_units)
    return next((figures[n] for n in (dtype_name(spelling), *others) if n in figures), None)
