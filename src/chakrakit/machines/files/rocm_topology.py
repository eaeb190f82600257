"""What `rocm-smi --showtopo` and `amd-smi topology` print, as text or with `--json`.

Text: sections between lines of `=`, of which "Link Type between two GPUs" is a matrix of XGMI and PCIE
with a line of names (GPU0 …) and a row for each, and "Numa Nodes" has lines "GPU[0] : (Topology) Numa
Node: 0". JSON: an object `system` with keys "(Topology) Link type between DRM devices 0 and 1", and
`card0` with "(Topology) Numa Node". How many links a pair has, and how fast they are, is not in it.

amd-smi prints tables under names in capitals; "LINK TYPE TABLE:" is a matrix of SELF, XGMI and PCIE whose
rows and columns are PCI addresses, in the order of the GPUs. NUMA nodes are not in it. "NUMA BW TABLE:" says
50000-50000 (MB/s), 0-0 or N/A by the driver, and not what a link carries: it is not read. Its JSON is a list
of GPUs, each with `links` to all, of which one has `gpu` and `link_type` among others; before ROCm 6.3 each
had `link_type` as an object, "gpu_0": "SELF" and so on.
"""

from __future__ import annotations

import re
from typing import Any

from chakrakit.configuration import decode_json
from chakrakit.errors import FormatError
from chakrakit.machines.assumed import GB, SOCKETS
from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.drawn_graph import DrawnGraph

_XGMI, _PCIE = 64 * GB, 31.5 * GB
_MOST = 1024
"""GPUs of one node, of which every pair has a cell; a node has 8 or 16."""
_KINDS = ("XGMI", "PCIE", "SELF", "0", "N/A", "UNKNOWN")
"""What the tools print between two GPUs: what is no xGMI goes over PCI."""
_AMD_SMI = "LINK TYPE TABLE:"
_AMD_SMI_JSON = re.compile(rb'\A\s*\[\s*\{\s*"gpu"\s*:.*"link_type"\s*:', re.DOTALL)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)
_PAIR = re.compile(r"Link type between DRM devices (\d{1,4}) and (\d{1,4})", re.IGNORECASE)


def is_rocm_topology(head: bytes) -> bool:
    """Whether this is a tool's text, or its JSON."""
    marks = (
        b"Link Type between two GPUs",
        b"(Topology) Link type between DRM devices",
        _AMD_SMI.encode(),
    )
    return any(mark in head for mark in marks) or _AMD_SMI_JSON.match(head) is not None


def read_rocm_topology(data: bytes, where: str) -> Machine:
    """The node that the tool describes."""
    text = data.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        kinds, numa = _from_json(data, where)
    elif text.lstrip().startswith("["):
        kinds, numa = _from_list(data, where), {}
    elif _AMD_SMI in text:
        kinds, numa = _from_addresses(text, where), {}
    else:
        kinds, numa = _from_text(text, where)
    size = 1 + max(max(pair) for pair in kinds)
    if size > _MOST:
        raise FormatError(f"{size:,} GPUs in a node", path=where)
    graph = DrawnGraph(where, devices=[f"gpu.{i}" for i in range(size)])
    for (a, b), kind in sorted(kinds.items()):
        if kind.upper() not in _KINDS:
            raise FormatError(
                f"between GPUs {a} and {b}: {kind[:20]!r} is neither XGMI nor PCIE", path=where
            )
        if a < b and kind.upper() == "XGMI":
            graph.link(f"gpu.{a}", f"gpu.{b}", _XGMI)
            graph.assume(
                "xGMI: 64 GB/s between two GPUs, AMD MI300X; how many links there are is not said"
            )
    graph.assume("PCI: as PCI Express 4 x16, 31.5 GB/s")
    for i in range(size):
        graph.link(f"gpu.{i}", f"pci.{i}", _PCIE)
        graph.link(f"pci.{i}", f"node.{numa.get(i, 0)}", _PCIE)
    nodes = sorted({numa.get(i, 0) for i in range(size)})
    for i, node in enumerate(nodes):
        for other in nodes[i + 1 :]:
            graph.link(f"node.{node}", f"node.{other}", SOCKETS)
    if not numa:
        graph.assume("NUMA nodes: one for all GPUs; none is said")
    graph.assume("latencies: 0; between NUMA nodes: 16 GB/s")
    return graph.machine()


Kinds = dict[tuple[int, int], str]


def _from_text(text: str, where: str) -> tuple[Kinds, dict[int, int]]:
    section = text.split("Link Type between two GPUs", 1)[-1]
    head, kinds = None, Kinds()
    for line in section.splitlines():
        words = line.split()
        if head is None and words and all(re.fullmatch(r"GPU\d{1,4}", w) for w in words):
            head = [int(w[3:]) for w in words]
        elif (
            head and words and re.fullmatch(r"GPU\d{1,4}", words[0]) and len(words) == len(head) + 1
        ):
            kinds |= {(int(words[0][3:]), b): word for b, word in zip(head, words[1:], strict=True)}
        elif head and words and words[0].startswith("="):
            break
    if not kinds:
        raise FormatError("its matrix of link types has no rows", path=where)
    numa = re.findall(r"GPU\[(\d{1,4})\]\s*:\s*\(Topology\) Numa Node:\s*(\d{1,4})", text)
    return kinds, {int(gpu): int(node) for gpu, node in numa}


def _from_addresses(text: str, where: str) -> Kinds:
    """The link types that amd-smi prints: up to the next table, a line of addresses and a row for each."""
    lines = text.split(_AMD_SMI, 1)[1].split("TABLE:", 1)[0].splitlines()
    rows = [words for line in lines if (words := line.split()) and _ADDRESS.fullmatch(words[0])]
    head, body = (rows[0], rows[1:]) if rows else ([], [])
    square = all(len(row) == len(head) + 1 for row in body)
    if not head or not square or [row[0] for row in body] != head:
        raise FormatError(
            "its table of link types is not a square matrix of PCI addresses; "
            "give all that `amd-smi topology` prints",
            path=where,
        )
    return {(a, b): kind for a, row in enumerate(body) for b, kind in enumerate(row[1:])}


def _from_list(data: bytes, where: str) -> Kinds:
    """The link types of amd-smi's JSON."""
    content = decode_json(data, list[Any], where, "what amd-smi topology --json prints")
    kinds = Kinds()
    for gpu in content:
        if not isinstance(gpu, dict):
            continue
        links, old = gpu.get("links"), gpu.get("link_type")
        pairs = (
            [(k.removeprefix("gpu_"), v) for k, v in old.items()] if isinstance(old, dict) else []
        )
        listed = links if isinstance(links, list) else []
        pairs += [(x.get("gpu"), x.get("link_type")) for x in listed if isinstance(x, dict)]
        for other, kind in pairs:
            if kind is not None:
                kinds[_number(gpu.get("gpu"), where), _number(other, where)] = str(kind)
    if not kinds:
        raise FormatError(
            "names no link type between GPUs; give all that `amd-smi topology --json` prints",
            path=where,
        )
    return kinds


def _number(value: object, where: str) -> int:
    text = str(value)
    if not text.isdecimal() or len(text) > 4:
        raise FormatError(f"gpu {value!r} is not a number of a GPU", path=where)
    return int(text)


def _from_json(data: bytes, where: str) -> tuple[Kinds, dict[int, int]]:
    content = decode_json(data, dict[str, Any], where, "what rocm-smi --showtopo --json prints")
    kinds, numa = Kinds(), {}
    system = content.get("system")
    for key, value in (system if isinstance(system, dict) else {}).items():
        if match := _PAIR.search(key):
            kinds[int(match[1]), int(match[2])] = str(value)
    for key, card in content.items():
        match = re.fullmatch(r"card(\d{1,4})", key)
        node = str(card.get("(Topology) Numa Node", "")) if isinstance(card, dict) else ""
        if match and node.isdecimal() and len(node) < 5:
            numa[int(match[1])] = int(node)
    if not kinds:
        raise FormatError("`system` names no link type between devices", path=where)
    return kinds, numa
