"""Errors say where, and what there is instead of what was asked for."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError, MissingExtra, listed, nearest


@pytest.mark.parametrize(
    ("path", "offset", "said"),
    [
        ("a.et", 1234, "a.et at byte 1,234: cut off"),
        ("a.et", None, "a.et: cut off"),
        (None, -1, "input: cut off"),
    ],
)
def test_a_damaged_file_is_named_with_the_byte(path, offset, said):
    assert str(FormatError("cut off", path=path, offset=offset)) == said


def test_a_missing_package_comes_with_its_cure():
    said = "charts needs an optional package: pip install 'chakrakit[view]'"
    assert str(MissingExtra("charts", "view")) == said


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("gem", ["gemm", "copy"], "did you mean 'gemm'?"),
        ("GEMM", ["gemm", "copy"], "did you mean 'gemm'?"),
        ("xyz", ["gemm", "copy"], "there are gemm, copy"),
        (12, range(3), "there are 0, 1, 2"),
        ("x", [], "there are none"),
    ],
)
def test_the_nearest_names_are_told_or_all_there_are(name, known, said):
    assert nearest(name, known) == said


def test_many_names_are_cut_to_the_first_the_last_and_their_number():
    assert listed(range(5000), few=6) == "0, 1, … 4999 (5,000 of them)"
