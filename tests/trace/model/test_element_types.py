"""Element types under all their names."""

import pytest

from chakrakit.trace.model import dtype_name, element_bytes


@pytest.mark.parametrize(
    ("name", "short", "size"),
    [
        ("c10::BFloat16", "bf16", 2),
        ("Half", "fp16", 2),
        ("float", "fp32", 4),
        ("tf32", "tf32", 4),
        ("long int", "int64", 8),
        ("unsigned char", "uint8", 1),
        ("c10::Float8_e5m2", "fp8", 1),
        ("fp4", "fp4", 0.5),
        ("c10::complex<double>", "complex128", 16),
    ],
)
def test_one_short_name_and_one_size(name, short, size):
    assert (dtype_name(name), element_bytes(name)) == (short, size)


def test_a_type_nobody_knows_keeps_its_name_and_has_no_size():
    assert (dtype_name("Quaternion"), element_bytes("Quaternion")) == ("quaternion", 0.0)
