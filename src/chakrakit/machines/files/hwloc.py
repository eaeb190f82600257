"""hwloc's topology, as `lstopo FILE.xml` writes it (versions 1 and 2).

XML: `<topology>` with nested `<object type=…>`: Machine, Package, NUMANode and caches; below them
`Bridge` and `PCIDev` with `pci_type` ("0302 [10de:20b0] …": class, vendor, device), `pci_link_speed` in
GB/s as the link stood at that moment (a GPU that sleeps shows less than it can do), and `OSDev` with the
name of a card or port. Class 03xx is a GPU, 02xx an adapter. Links between GPUs are not in it.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from chakrakit.configuration import read_xml
from chakrakit.errors import FormatError
from chakrakit.machines.assumed import GB, SOCKETS
from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.drawn_graph import DrawnGraph

_BUSY = {"0302", "0380", "1200"}
"""Classes of PCI devices that compute: 3D controllers, other displays of AMD's, accelerators."""
_PLAIN = "0300"
"""Displays: graphics cards, and the chips of management boards."""
_BOARDS = ("1a03", "102b", "19a2")
"""Vendors of management boards' chips: ASPEED, Matrox, Emulex."""


def is_hwloc(head: bytes) -> bool:
    """Whether a file begins with `<topology`, after what XML may have before it."""
    return re.match(rb"\s*(<\?xml[^>]*>\s*)?(<!DOCTYPE[^>]*>\s*)?<topology\b", head) is not None


def read_hwloc(data: bytes, where: str) -> Machine:
    """The node of a topology file."""
    root = read_xml(data, where)
    if root.tag != "topology":
        raise FormatError(f"begins with <{root.tag}>, not <topology>", path=where)
    graph = DrawnGraph(where)
    packages: list[str] = []
    _walk(root, "machine", graph, packages)
    if len(packages) > 1:
        graph.assume("between sockets: 16 GB/s, as NCCL's topology code takes for AMD's")
    for i, a in enumerate(packages):
        for b in packages[i + 1 :]:
            graph.link(a, b, SOCKETS)
    graph.assume("latencies: the file has none, 0")
    graph.assume("links between GPUs: hwloc lists none, so that they talk over PCI")
    return graph.machine()


def _walk(element: Element, above: str, graph: DrawnGraph, packages: list[str]) -> None:
    for inner in element.findall("object"):
        kind = inner.get("type", "")
        here = above
        if kind == "Package" or (kind == "NUMANode" and above == "machine"):
            here = f"package.{len(packages)}"
            packages.append(here)
        elif kind == "PCIDev":
            _device(inner, above, graph)
        elif kind == "Bridge" and (bus := inner.get("pci_busid")):
            here = f"pci.{bus}"
            graph.link(here, above, _speed(inner, graph))
        _walk(inner, here, graph, packages)


def _device(element: Element, above: str, graph: DrawnGraph) -> None:
    code, vendor = (element.get("pci_type") or "")[:4], (element.get("pci_type") or "")[6:10]
    bus = element.get("pci_busid", "")
    if code in _BUSY or (code == _PLAIN and vendor not in _BOARDS):
        name = f"gpu.{len(graph.devices)}"
        graph.devices.append(name)
        graph.link(name, f"pci.{bus}", _speed(element, graph))
        graph.link(f"pci.{bus}", above, _speed(element, graph))
    elif code.startswith("02"):
        graph.link(f"net.{bus}", above, _speed(element, graph))


def _speed(element: Element, graph: DrawnGraph) -> float:
    match = re.fullmatch(r"\d{1,6}(\.\d{1,9})?", element.get("pci_link_speed") or "")
    if match and 0 < float(match[0]) < 1e5:
        graph.assume("PCI links: the speed at which they ran when the file was written")
        return float(match[0]) * GB
    graph.assume("PCI links without a speed: as PCI Express 4 x16, 31.5 GB/s")
    return 31.5 * GB
