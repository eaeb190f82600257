"""Numbers with units come out in base units, or are refused with what may be written."""

from __future__ import annotations

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.device import parse, positive, show_bandwidth


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("450 GB/s", "bandwidth", 450e9),
        ("400 Gb/s", "bandwidth", 50e9),
        ("400Gbps", "bandwidth", 50e9),
        ("80 GiB", "bytes", 80 * 2**30),
        ("300 ns", "time", 3e-7),
        ("6 µs", "time", 6e-6),
        ("989 TFLOP/s", "rate", 989e12),
        ("0.7 kW", "power", 700.0),
        ("1_000", "bytes", 1000.0),
        (1e9, "bandwidth", 1e9),
    ],
)
def test_units_as_people_write_them(text, kind, value):
    assert parse(text, kind, "here") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("450 GB", "here: '450 GB' is not a bandwidth; write a number and one of B/s, b/s"),
        ("fast", "here: 'fast' is not a bandwidth"),
        (-1, "here: -1 is not a bandwidth of 0 or more"),
        (float("nan"), "here: nan is not a bandwidth of 0 or more"),
        (True, "here: True is not a bandwidth"),
        ("1.2.3 GB/s", "here: '1.2.3' is not a number"),
    ],
)
def test_what_is_no_quantity_is_refused_with_its_place(text, said):
    with pytest.raises(ConfigError) as error:
        parse(text, "bandwidth", "here")
    assert str(error.value).startswith(said)


def test_where_zero_would_stop_everything_it_is_refused_too():
    assert parse(0, "bandwidth", "here") == 0
    with pytest.raises(ConfigError, match="nothing would ever finish"):
        positive(0, "bandwidth", "here")


def test_quantities():
    assert parse("450 GB/s", "bandwidth", "x") == 450e9
    assert parse("400 Gb/s", "bandwidth", "x") == 50e9
    assert parse("400Gbps", "bandwidth", "x") == 50e9
    assert parse("1.5 us", "time", "x") == pytest.approx(1.5e-6)
    assert parse("80 GiB", "bytes", "x") == 80 * 2**30
    assert show_bandwidth(450e9) == "450 GB/s"


@pytest.mark.parametrize(
    ("unit", "kind", "value"),
    [("s", "time", 1), ("ms", "time", 1e-3), ("us", "time", 1e-6), ("µs", "time", 1e-6), ("ns", "time", 1e-9),
     ("ps", "time", 1e-12), ("W", "power", 1), ("kW", "power", 1e3), ("FLOP/s", "rate", 1),
     ("GFLOPS", "rate", 1e9), ("TFLOP/s", "rate", 1e12), ("PFLOP/s", "rate", 1e15), ("KiB", "bytes", 1024),
     ("MB", "bytes", 1e6), ("GiB", "bytes", 2**30), ("Gb", "bytes", 1e9 / 8), ("TB/s", "bandwidth", 1e12),
     ("Gbps", "bandwidth", 1e9 / 8), ("MiB/s", "bandwidth", 2**20)],
)  # fmt: skip
def test_a_unit_is_what_it_says(unit, kind, value):
    assert parse(f"3 {unit}", kind, "x") == pytest.approx(3 * value, rel=1e-12)
