"""The constants of a library: its protocols by name, and numbers that cannot be refused."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.machines import load_machine, preset_text
from chakrakit.machines.library import Library
from chakrakit.machines.library.constants import PROTOCOLS


def test_protocols_have_names_and_pcie_has_no_ll128() -> None:
    nvlink, pcie = (load_machine(n).library for n in ("dgx-h200", "l40s-pcie"))
    assert nvlink is not None
    assert pcie is not None
    assert [nvlink.protocol(name) for name in PROTOCOLS] == [nvlink.ll, nvlink.ll128, nvlink.simple]
    assert pcie.protocol("LL128") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"launch_us": -1}, r"launch_us"),
        ({"simple": {"hop_us": 1, "share": 0}}, r"simple\.share"),
        ({"colour": 1}, "unknown field `colour`"),
    ],
)
def test_numbers_that_no_library_has_are_refused(change: dict, said: str) -> None:
    text = preset_text("dgx-h200")["library"] | change
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(text, Library)
