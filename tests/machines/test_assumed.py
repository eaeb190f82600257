"""What is assumed of links that a description only names."""

from __future__ import annotations

import pytest

from chakrakit.machines.assumed import GB, NVLINK_OF_SM, PCIE_LANE, SM_DEVICES, assumed_rate

CODES = {
    2.5: 8 / 10,
    5.0: 8 / 10,
    8.0: 128 / 130,
    16.0: 128 / 130,
    32.0: 128 / 130,
    64.0: 242 / 256,
}
"""The share of PCI Express's bits that are data: the line codes, and generation 6's framing."""


def test_a_lane_of_pci_express_carries_what_its_line_code_leaves():
    assert PCIE_LANE.keys() == CODES.keys()
    for rate, share in CODES.items():
        assert PCIE_LANE[rate] == pytest.approx(rate / 8 * share * GB, rel=1e-3)


@pytest.mark.parametrize(("generation", "rate"), [(3, 8.0), (4, 16.0), (5, 32.0), (6, 64.0)])
def test_a_slot_has_sixteen_lanes(generation: int, rate: float):
    slot = assumed_rate(f"PCIe Gen{generation}")
    assert slot.bandwidth == pytest.approx(16 * PCIE_LANE[rate], rel=2e-3)


def test_links_of_a_gpu_add_up_to_its_data_sheet():
    """GB/s in one direction: 4 links of a P100, 6 of a V100, 12, 18 and 18 of A100, H100 and B200."""
    links = {
        60: (4, 80),
        70: (6, 150),
        80: (12, 300),
        90: (18, 450),
        100: (18, 900),
        103: (18, 900),
    }
    for sm, (count, total) in links.items():
        assert count * NVLINK_OF_SM[sm] == total * GB


def test_gpus_are_known_by_their_compute_capability():
    assert SM_DEVICES[90] == "h100-sxm"
    assert SM_DEVICES[100] == SM_DEVICES[103] == "b200-sxm"


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("400 Gbps port", 50e9), ("25GbE", 3.125e9), ("a cable", 50e9), ("0 Gbps", 50e9)],
)
def test_a_rate_that_is_written_counts(text: str, bytes_per_s: float):
    assert assumed_rate(text).bandwidth == bytes_per_s
