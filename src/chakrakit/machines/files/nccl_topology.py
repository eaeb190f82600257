"""NCCL's topology, as `NCCL_TOPO_DUMP_FILE` writes it.

XML: `<system>` holds a `<cpu numaid>` for each NUMA node; inside, `<pci busid link_speed link_width>`
nest as bridges and switches do, down to `<gpu dev sm rank>` (for AMD `gcn`) and `<nic>` with `<net name
speed>` in Mb/s. `<nvlink target count tclass>` below a GPU says how many links go to a bus id: another
GPU, or an NVSwitch (class 0x068000), which is listed nowhere else. `<xgmi>` is the same for AMD.

NVSwitches are drawn as one, since every GPU has links to all of them and NCCL spreads data evenly.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from chakrakit.configuration import read_xml
from chakrakit.errors import FormatError
from chakrakit.machines.assumed import GB, NVLINK_OF_SM, PCIE_LANE, SM_DEVICES, SOCKETS
from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.drawn_graph import DrawnGraph

_SWITCH_CLASS = "0x068000"
_XGMI = 64 * GB
"""AMD MI300X: 64 GB/s a link and direction."""
_MOST_GPUS = 4096
"""GPUs of one file, of which every pair is looked at; a node has 8, a rack 72."""


def is_nccl_topology(head: bytes) -> bool:
    """Whether a file begins with `<system` and holds processors."""
    return re.match(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<system\b", head, re.DOTALL) is not None


def read_nccl_topology(data: bytes, where: str) -> Machine:
    """The node of a topology file."""
    root = read_xml(data, where)
    if root.tag != "system":
        raise FormatError(f"begins with <{root.tag}>, not <system>", path=where)
    return _Node(root, where).machine()


class _Node:
    def __init__(self, root: Element, where: str) -> None:
        self.graph = DrawnGraph(where)
        self.where = where
        self.gpus: dict[str, Element] = {}
        """GPUs by the bus id of the PCI device around them, in the order of NCCL's ranks."""
        self.pci: dict[str, Element] = {}
        cpus = list(root.iter("cpu"))
        for number, cpu in enumerate(cpus):
            name = f"cpu.{cpu.get('numaid', number)}"
            for inner in cpu.findall("pci"):
                self._pci(inner, name)
        self._sockets([f"cpu.{c.get('numaid', i)}" for i, c in enumerate(cpus)])

    def machine(self) -> Machine:
        order = sorted(self.gpus, key=lambda bus: self._number(self.gpus[bus]))
        if len(order) > _MOST_GPUS:
            raise FormatError(f"{len(order):,} GPUs in a node", path=self.where)
        self.names = {bus: f"gpu.{i}" for i, bus in enumerate(order)}
        self.graph.devices = [self.names[bus] for bus in order]
        for bus in order:
            self.graph.link(self.names[bus], f"pci.{bus}", self._lanes(self.pci[bus], bus))
            self._direct(bus, self.gpus[bus])
        self.graph.assume("latencies: the file has none, 0")
        return self.graph.machine(self._device(order))

    def _pci(self, element: Element, above: str) -> None:
        bus = element.get("busid", "")
        if not bus:
            raise FormatError("a <pci> without busid", path=self.where)
        if bus in self.pci:
            raise FormatError(
                f"two <pci> have the busid {bus!r}; give each its own", path=self.where
            )
        self.pci[bus] = element
        self.graph.link(f"pci.{bus}", above, self._lanes(element, bus))
        if (gpu := element.find("gpu")) is not None:
            self.gpus[bus] = gpu
        for nic in element.findall("nic"):
            for net in nic.findall("net"):
                self._net(net, bus)
        for inner in element.findall("pci"):
            self._pci(inner, f"pci.{bus}")

    def _net(self, net: Element, bus: str) -> None:
        speed, name = _number(net.get("speed")), net.get("name", net.get("dev", ""))
        if speed > 0:
            self.graph.link(f"net.{name}", f"pci.{bus}", speed * 1e6 / 8)
        else:
            self.graph.assume(f"adapter {name}: off, its speed is {net.get('speed')!r}")

    def _lanes(self, element: Element, bus: str) -> float:
        """Bytes per second of a PCI device's own link."""
        speed = _number((element.get("link_speed") or "").split(" ")[0])
        width = _number(element.get("link_width"))
        lane = PCIE_LANE.get(speed)
        if lane is None or not 0 < width <= 32:
            self.graph.assume("PCI links without speed or width: as PCI Express 4 x16, 31.5 GB/s")
            return 31.5 * GB
        return lane * width

    def _sockets(self, cpus: list[str]) -> None:
        if len(cpus) > 1:
            self.graph.assume(
                "between NUMA nodes: 16 GB/s, as NCCL's topology code takes for AMD's"
            )
        for i, a in enumerate(cpus):
            for b in cpus[i + 1 :]:
                self.graph.link(a, b, SOCKETS)

    def _direct(self, bus: str, gpu: Element) -> None:
        """NVLinks and xGMI of a GPU: those to switches together, those to a peer once for both."""
        rate = self._link_rate(gpu)
        switched = 0.0
        for link in [*gpu.findall("nvlink"), *gpu.findall("xgmi")]:
            target, count = link.get("target", ""), _number(link.get("count"))
            if not 0 < count <= 64:
                raise FormatError(
                    f"count {link.get('count')!r} of a link to {target!r}", path=self.where
                )
            bandwidth = count * (_XGMI if link.tag == "xgmi" else rate)
            if link.get("tclass") == _SWITCH_CLASS or target not in self.names:
                switched += bandwidth
            elif bus < target:
                self.graph.link(self.names[bus], self.names[target], bandwidth)
        if switched:
            self.graph.link(self.names[bus], "nvswitch", switched)

    def _link_rate(self, gpu: Element) -> float:
        sm = int(_number(gpu.get("sm")))
        rate = NVLINK_OF_SM.get(sm, 25 * GB)
        if gpu.find("nvlink") is not None:
            self.graph.assume(f"NVLink: {rate / GB:g} GB/s a link and direction, by sm {sm}")
        return rate

    def _number(self, gpu: Element) -> float:
        return _number(gpu.get("rank") or gpu.get("dev"))

    def _device(self, order: list[str]) -> str:
        kinds = {int(_number(self.gpus[bus].get("sm"))) for bus in order}
        known = SM_DEVICES.get(kinds.pop(), "") if len(kinds) == 1 else ""
        if any("gfx94" in (self.gpus[bus].get("gcn") or "") for bus in order):
            known = "mi300x"
        if known:
            self.graph.assume(f"device: {known}, the usual GPU of this kind; the file does not say")
        return known


def _number(text: str | None) -> float:
    """A number in an attribute; -1 where there is none."""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*", text or "")
    return float(match[1]) if match else -1.0
