"""The matrix that `nvidia-smi topo -m` prints.

A line of names (GPU0, GPU1, …, NIC0, …, "CPU Affinity", …), then a row for each: `X` for itself, `NV12`
for so many NVLinks, `PIX` one PCI bridge, `PXB` several, `PHB` a host bridge, `NODE` within a NUMA node,
`SYS` across sockets. Where the links of all pairs are more than a GPU has, they are links to NVSwitches.
The generation of links and buses is not in it.
"""

from __future__ import annotations

import re

from chakrakit.errors import FormatError
from chakrakit.machines.assumed import GB, SOCKETS
from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.drawn_graph import DrawnGraph

_NVLINK, _PCIE = 25 * GB, 31.5 * GB
_MOST_LINKS = 18
"""NVLinks of one GPU: of H100 and B200, the most so far."""
_MOST = 1024
"""Rows and columns of one node's matrix: 8 or 16 GPUs, and about as many network cards."""
_CELL = re.compile(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_CLOSE, _NODE = ("PIX", "PXB"), ("PHB", "NODE")


def is_topology_matrix(head: bytes) -> bool:
    """Whether text begins with a line of GPUs' names, and rows of links follow."""
    text = _ESCAPES.sub("", head.decode("utf-8", "replace"))
    return re.search(r"^\s*GPU0\s+GPU1|^\s*GPU0\s+(CPU|NIC)", text, re.MULTILINE) is not None and (
        re.search(r"^\s*GPU0\s+X\b", text, re.MULTILINE) is not None
    )


def read_topology_matrix(data: bytes, where: str) -> Machine:
    """The node that a matrix describes."""
    cells = _cells(_ESCAPES.sub("", data.decode("utf-8", "replace")), where)
    gpus = [name for name in cells if name.startswith("GPU")]
    graph = DrawnGraph(where, devices=gpus)
    _nvlinks(gpus, cells, graph)
    _buses(list(cells), cells, graph)
    graph.assume("latencies: the matrix has none, 0")
    return graph.machine()


def _cells(text: str, where: str) -> dict[str, dict[str, str]]:
    """Row → column → what is between them."""
    lines = [line for line in text.splitlines() if line.strip()]
    head = next(i for i, line in enumerate(lines) if re.match(r"\s*GPU0\b", line))
    names = re.findall(r"(?:GPU|NIC|mlx5_)\d+", lines[head])
    rows: dict[str, dict[str, str]] = {}
    for line in lines[head + 1 :]:
        words = line.split()
        if words and words[0] in names:
            found = [w for w in words[1 : 1 + len(names)] if _CELL.fullmatch(w)]
            if len(found) != len(names):
                raise FormatError(
                    f"{words[0]} has {len(found)} links for {len(names)} columns; give all of the matrix",
                    path=where,
                )
            rows[words[0]] = dict(zip(names, found, strict=True))
    if set(rows) != set(names) or len(names) > _MOST:
        raise FormatError(f"{len(rows)} rows for {len(names)} columns", path=where)
    for a, row in rows.items():
        if b := next((b for b in names if row[b] != rows[b][a]), None):
            raise FormatError(
                f"{a} has {row[b]} to {b}, and {b} has {rows[b][a]} to {a}", path=where
            )
    return rows


def _nvlinks(gpus: list[str], cells: dict[str, dict[str, str]], graph: DrawnGraph) -> None:
    counts = {
        (a, b): int(cells[a][b][2:])
        for i, a in enumerate(gpus)
        for b in gpus[i + 1 :]
        if cells[a][b].startswith("NV")
    }
    if not counts:
        return
    graph.assume("NVLink: 25 GB/s a link and direction, as of V100, A100 and H100")
    of_gpu = {g: sum(n for pair, n in counts.items() if g in pair) for g in gpus}
    if max(of_gpu.values()) > _MOST_LINKS:
        for gpu in gpus:
            most = max((n for pair, n in counts.items() if gpu in pair), default=0)
            if most:
                graph.link(gpu, "nvswitch", most * _NVLINK)
    else:
        for (a, b), count in counts.items():
            graph.link(a, b, count * _NVLINK)


def _buses(names: list[str], cells: dict[str, dict[str, str]], graph: DrawnGraph) -> None:
    """PCI switches of names that are close, NUMA nodes of switches, and links between the nodes."""
    switch, node = (_joined(names, cells, near) for near in (_CLOSE, (*_CLOSE, *_NODE)))
    graph.assume("PCI: as PCI Express 4 x16, 31.5 GB/s; the matrix does not say")
    for name in names:
        graph.link(name, f"pci.{name}", _PCIE)
        graph.link(f"pci.{name}", f"switch.{switch[name]}", _PCIE)
    for name, number in {n: s for n, s in switch.items() if s == n}.items():
        graph.link(f"switch.{number}", f"node.{node[name]}", _PCIE)
    nodes = sorted(set(node.values()))
    if len(nodes) > 1:
        graph.assume("between NUMA nodes: 16 GB/s, as NCCL's topology code takes for AMD's")
    for i, a in enumerate(nodes):
        for b in nodes[i + 1 :]:
            graph.link(f"node.{a}", f"node.{b}", SOCKETS)


def _joined(
    names: list[str], cells: dict[str, dict[str, str]], near: tuple[str, ...]
) -> dict[str, str]:
    """For each name the first that it is near to, through others too; NVLinks hide how near GPUs are."""
    first: dict[str, str] = {}
    for name in names:
        known = next((first[other] for other in first if cells[name][other] in near), name)
        first[name] = known
    return first
