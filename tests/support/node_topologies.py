"""What nodes and other tools say of a machine, written by hand in the manner of each."""

from __future__ import annotations

NCCL = """\
<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">0
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="1" gdr="1"><nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:f1:00.0" count="9" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="1" sm="90" rank="0" gdr="1"><nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
        <nvlink target="0000:f1:00.0" count="9" tclass="0x068000"/></gpu>
    </pci>
  </cpu>
</system>
"""
"""Two GPUs under two switches with nine links each, their ranks not in the order of the file."""

HWLOC = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0"/>
      <object type="Bridge" bridge_type="0-1" depth="0">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:10:01.0" pci_type="0604 [8086:352a] 00 00"
                pci_link_speed="31.507692">
          <object type="PCIDev" pci_busid="0000:11:00.0" pci_type="0302 [10de:27b0] [10de:16fa] a1 01"
                  pci_link_speed="15.753846"/>
        </object>
        <object type="PCIDev" pci_busid="0000:12:00.0" pci_type="0300 [1a03:2000] 00 00"/>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="Bridge" bridge_type="0-1" depth="0">
        <object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0302 [10de:27b0] 00" pci_link_speed="0.0"/>
        <object type="PCIDev" pci_busid="0000:82:00.0" pci_type="0207 [15b3:1021] 00" pci_link_speed="63.0"/>
      </object>
    </object>
  </object>
</topology>
"""
"""Two sockets with a GPU each, an adapter, and the chip of a management board, which is no GPU."""

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tPIX\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tNODE\t0-47\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\t48-95\t1\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\t48-95\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""

ROCM = """\
============================ ROCm System Management Interface ============================
================================ Weight between two GPUs =================================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0

=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Node: 1
================================== End of ROCm SMI Log ===================================
"""
ROCM_JSON = (
    '{"card0": {"(Topology) Numa Node": "0"}, "card1": {"(Topology) Numa Node": "1"}, '
    '"system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI"}}'
)

AMD_SMI = """\
ACCESS TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 ENABLED      ENABLED
0000:22:00.0 ENABLED      ENABLED

LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 SELF         XGMI
0000:22:00.0 XGMI         SELF

NUMA BW TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 N/A          50000-50000
0000:22:00.0 50000-50000  N/A
"""

SIMAI = """\
7 2 2 1 8 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
"""
"""Two servers of two GPUs with a switch each, and one switch for all."""

AMD_SMI_JSON = """\
[
    {"gpu": 0, "bdf": "0000:0c:00.0", "links": [
        {"gpu": 0, "bdf": "0000:0c:00.0", "weight": 0, "link_type": "SELF", "bandwidth": "N/A"},
        {"gpu": 1, "bdf": "0000:22:00.0", "weight": 15, "link_type": "XGMI", "num_hops": 1}]},
    {"gpu": 1, "bdf": "0000:22:00.0", "links": [
        {"gpu": 0, "bdf": "0000:0c:00.0", "weight": 15, "link_type": "XGMI", "num_hops": 1},
        {"gpu": 1, "bdf": "0000:22:00.0", "weight": 0, "link_type": "SELF", "bandwidth": "N/A"}]}
]
"""
