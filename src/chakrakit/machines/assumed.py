"""Bandwidths of links that a description names and does not measure, each with where it comes from.

What is taken from here is listed in the machine (`Machine.assumed`) and said wherever it is shown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

GB = 1e9


class Rate(NamedTuple):
    """The bandwidth of a kind of link, per direction."""

    pattern: str
    bandwidth: float
    source: str
    per_device: bool = False
    """Whether it is what all links of one device have together."""


RATES = (
    Rate(r"nvlink[ _-]?1", 80 * GB, "NVIDIA P100: 4 links of 20 GB/s", True),
    Rate(r"nvlink[ _-]?2", 150 * GB, "NVIDIA V100: 6 links of 25 GB/s", True),
    Rate(r"nvlink[ _-]?3", 300 * GB, "NVIDIA A100: 12 links of 25 GB/s", True),
    Rate(r"nvlink[ _-]?4", 450 * GB, "NVIDIA H100: 18 links of 25 GB/s", True),
    Rate(r"nvlink[ _-]?5", 900 * GB, "NVIDIA B200: 18 links of 50 GB/s", True),
    Rate(r"nv ?link", 450 * GB, "NVLink of an unnamed generation, as NVIDIA H100's", True),
    Rate(r"nvlink[ _-]?c2c|\bc2c\b", 450 * GB, "NVIDIA Grace Hopper: NVLink-C2C"),
    Rate(r"xpu.*(xgmi|infinity)|xgmi", 64 * GB, "AMD MI300X: 64 GB/s a link"),
    Rate(r"infinity|gmi\b", 64 * GB, "AMD Infinity Fabric: 16 lanes of 32 GT/s"),
    Rate(r"roce|gaudi", 75 * GB, "Intel Gaudi 3: 24 ports of 200 Gb/s, to 8 peers"),
    Rate(r"pcie?[ _-]?(express )?.*gen ?_?6|64 ?gt", 121 * GB, "PCI Express 6 x16"),
    Rate(r"pcie?[ _-]?(express )?.*gen ?_?5|32 ?gt", 63 * GB, "PCI Express 5 x16"),
    Rate(r"pcie?[ _-]?(express )?.*gen ?_?4|16 ?gt", 31.5 * GB, "PCI Express 4 x16"),
    Rate(r"pcie?[ _-]?(express )?.*gen ?_?3|\b8 ?gt", 15.75 * GB, "PCI Express 3 x16"),
    Rate(r"pci", 31.5 * GB, "PCI Express of an unnamed generation, as 4 x16"),
    Rate(
        r"upi|qpi|cpu.*fabric|socket", 16 * GB, "between sockets, as NCCL's topology code assumes"
    ),
    Rate(r"ddr|dimm|memory", 44.8 * GB, "DDR5-5600: 8 bytes a transfer"),
    Rate(r"nvme|sata|sas|e3\.s|u\.2", 7.9 * GB, "PCI Express 4 x4"),
)
"""The first pattern that the name or the description of a link matches decides."""
OTHER = Rate("", 50 * GB, "a port of 400 Gb/s; nothing says what this link is")
_GIGABITS = re.compile(r"(\d+(?:\.\d+)?) ?(?:g(?:b/?ps|bit/s|bps|b?e\b|ig)|G\b)", re.IGNORECASE)


def assumed_rate(text: str) -> Rate:
    """The rate of a link that is called or described like this."""
    for rate in RATES:
        if re.search(rate.pattern, text, re.IGNORECASE):
            return rate
    gigabits = _GIGABITS.search(text)
    if gigabits and 0 < float(gigabits[1]) < 1e6:
        return Rate("", float(gigabits[1]) / 8 * GB, f"{gigabits[1]} Gb/s, as it is described")
    return OTHER


SM_DEVICES = {
    80: "a100-sxm-80gb",
    89: "l40s",
    90: "h100-sxm",
    100: "b200-sxm",
    103: "b200-sxm",
    120: "rtx-pro-6000",
}
"""GPUs by CUDA's compute capability times ten, the usual one of each; a description may mean another."""
NVLINK_OF_SM = {
    60: 20 * GB,
    70: 25 * GB,
    80: 25 * GB,
    86: 14 * GB,
    90: 25 * GB,
    100: 50 * GB,
    103: 50 * GB,
}
"""Bytes per second and direction of one NVLink, from NVIDIA's data sheets of these GPUs."""
PCIE_LANE = {
    2.5: 0.25 * GB,
    5.0: 0.5 * GB,
    8.0: 0.985 * GB,
    16.0: 1.969 * GB,
    32.0: 3.938 * GB,
    64.0: 7.56 * GB,
}
"""Bytes per second of one lane by its GT/s: line code and framing taken out."""
SOCKETS = 16 * GB
"""Between NUMA nodes: what NCCL's topology code takes for AMD's processors."""
