"""Element types under all their names, and their numbers as PyTorch itself has them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.operators import (
    TYPES,
    WorkingType,
    dtype_name,
    element_bytes,
    element_type,
    figure_for,
    find_type,
    rate_name,
    type_of_code,
    type_of_cpp,
)


@pytest.mark.parametrize(
    ("spelling", "name", "size", "rate"),
    [
        ("c10::BFloat16", "bf16", 2, "bf16"),
        ("torch.bfloat16", "bf16", 2, "bf16"),
        ("ncclBfloat16", "bf16", 2, "bf16"),
        ("Half", "fp16", 2, "fp16"),
        ("float", "fp32", 4, "fp32"),
        ("f32", "fp32", 4, "fp32"),
        ("tf32", "tf32", 4, "tf32"),
        ("long int", "int64", 8, "int64"),
        ("torch.long", "int64", 8, "int64"),
        ("s64", "int64", 8, "int64"),
        ("short unsigned int", "uint16", 2, "uint16"),
        ("unsigned char", "uint8", 1, "uint8"),
        ("pred", "bool", 1, "bool"),
        ("c10::Float8_e5m2", "fp8_e5m2", 1, "fp8"),
        ("fp8_e4m3", "fp8_e4m3", 1, "fp8"),
        ("f8e4m3fn", "fp8_e4m3", 1, "fp8"),
        ("F8_E4M3", "fp8_e4m3", 1, "fp8"),
        ("fp8", "fp8", 1, "fp8"),
        ("mxfp6", "mxfp6", 0.75, "fp6"),
        ("fp4", "fp4", 0.5, "fp4"),
        ("NVFP4", "nvfp4", 0.5, "fp4"),
        ("float4_e2m1fn_x2", "float4_e2m1fn_x2", 1, "fp4"),
        ("int4", "int4", 0.5, "int4"),
        ("complex<float>", "complex64", 8, "fp32"),
        ("c10::complex<double>", "complex128", 16, "fp64"),
    ],
)
def test_one_short_name_one_size_and_one_rate(
    spelling: str, name: str, size: float, rate: str
) -> None:
    assert (dtype_name(spelling), element_bytes(spelling), rate_name(spelling)) == (
        name,
        size,
        rate,
    )


def test_a_type_nobody_knows_keeps_its_name_and_has_no_size() -> None:
    assert find_type("Quaternion") is None
    assert (dtype_name("Quaternion"), rate_name("Quaternion")) == ("quaternion", "quaternion")
    assert element_bytes("Quaternion") == 0.0
    with pytest.raises(ConfigError, match="no element type 'fp7'; did you mean 'fp8' or 'fp6'"):
        element_type("fp7")


def test_elements_of_part_of_a_byte_fill_the_last_one_up() -> None:
    sizes = {name: element_type(name).bytes_of(5) for name in ("nvfp4", "mxfp6", "uint1", "bf16")}
    assert sizes == {"nvfp4": 3, "mxfp6": 4, "uint1": 1, "bf16": 10}


def test_no_spelling_and_no_number_means_two_types() -> None:
    spellings = Counter(text for t in TYPES for text in {s.lower() for s in t.spellings})
    assert [text for text, count in spellings.items() if count > 1] == []
    for numbers in zip(*((t.torch_code, t.hlo_code, t.nccl_code) for t in TYPES), strict=True):
        assert [n for n, count in Counter(numbers).items() if n is not None and count > 1] == []
    assert all(find_type(text) is t for t in TYPES for text in t.spellings)


def test_every_rate_and_every_working_type_is_a_type() -> None:
    names = {t.name for t in TYPES}
    assert {t.rate for t in TYPES} <= names
    assert set(get_args(WorkingType)) <= names


@pytest.mark.parametrize(
    ("ecosystem", "code", "name"),
    [("torch", 15, "bf16"), ("xla", 16, "bf16"), ("nccl", 9, "bf16"), ("xla", 32, "fp4_e2m1")],
)
def test_each_ecosystem_has_numbers_of_its_own(ecosystem: str, code: int, name: str) -> None:
    element = type_of_code(ecosystem, code)  # type: ignore[arg-type]
    assert element is not None
    assert element.name == name


def test_numbers_that_no_type_has_are_none() -> None:
    assert type_of_code("torch", 99) is None
    assert type_of_code("xla", 13) is None  # a tuple
    assert type_of_code("nccl", -1) is None


def test_a_recorded_number_is_no_tensor_of_its_type() -> None:
    assert type_of_cpp("int") is element_type("int32")
    assert type_of_cpp("Int") is None


def test_a_device_that_names_a_type_is_believed_before_its_kind() -> None:
    figures = {"fp4": 9.0, "nvfp4": 7.0, "bf16": 2.0}
    assert [figure_for(figures, t) for t in ("NVFP4", "mxfp4", "bfloat16", "fp8")] == [
        7.0,
        9.0,
        2.0,
        None,
    ]


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:torch.quantize")
def test_pytorch_records_the_numbers_and_names_of_the_table(tmp_path: Path) -> None:
    """Every type that PyTorch can make a tensor of, made while its observer watches."""
    torch = pytest.importorskip("torch")
    there = [t for t in TYPES if t.torch and hasattr(torch, t.torch)]
    file = tmp_path / "observed.json"
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(file))
    observer.start()
    for t in there:
        torch.empty(2, dtype=getattr(torch, t.torch))
    observer.stop()
    observer.unregister_callback()
    nodes = json.loads(file.read_text())["nodes"]
    made = [n for n in nodes if n["name"] == "aten::empty"]
    recorded = [(n["inputs"]["values"][1], n["outputs"]["types"][0]) for n in made]
    assert recorded == [(t.torch_code, f"Tensor({t.cpp})") for t in there]
    assert len(there) > 30


def test_widths_are_those_of_numpy():
    """Of the types that NumPy itself has; others come with `ml_dtypes`."""
    own = [t for t in TYPES if t.numpy and hasattr(np, t.numpy)]
    assert len(own) >= 13
    for t in own:
        assert t.bits == 8 * np.dtype(t.numpy).itemsize, t.name


def test_whole_numbers_have_as_many_bits_as_their_names_say():
    whole = {t.name: t.bits for t in TYPES if t.name.lstrip("u").startswith("int")}
    assert len(whole) >= 12
    assert whole == {name: int(name.lstrip("u").removeprefix("int")) for name in whole}


def test_a_device_without_units_for_tf32_computes_it_in_fp32():
    assert figure_for({"fp32": 15.7, "fp16": 125.0}, "tf32") == 15.7
    assert figure_for({"fp32": 15.7, "tf32": 60.0}, "tf32") == 60.0
    assert figure_for({"fp16": 125.0}, "tf32") is None
