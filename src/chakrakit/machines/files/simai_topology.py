"""SimAI's topology, which its generator writes for the packet simulator.

Text: a first line of six words — nodes, GPUs of a server, NVSwitches, other switches, links, kind of GPU
—, a second line with the numbers of all switches, and a line for each link: its two ends, bandwidth
("400Gbps"), latency ("0.0005ms") and a rate of errors. GPUs are the nodes that are no switches, in the
order of their numbers. NVSwitches are drawn like any other switch.
"""

from __future__ import annotations

import re

from chakrakit.errors import FormatError
from chakrakit.machines.description import MAX_NAMED_LINKS, check_devices, check_links
from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.drawn_graph import DrawnGraph

_HEAD = re.compile(rb"[ \t]*(\d{1,9}) (\d{1,9}) (\d{1,9}) (\d{1,9}) (\d{1,9}) (\w+)\s*\n\s*\d")
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([KMGT]?)bps")
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,12})?(?:e-?\d{1,2})?)(ms|us|ns|s)")
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_GPUS = {"A100": "a100-sxm-80gb", "H100": "h100-sxm", "H200": "h200-sxm", "B200": "b200-sxm"}


def is_simai_topology(head: bytes) -> bool:
    """Whether text begins with five counts and a kind of GPU, and a line of numbers."""
    return _HEAD.match(head) is not None


def read_simai_topology(data: bytes, where: str) -> Machine:
    """The cluster of a topology file."""
    lines = data.decode("utf-8", "replace").split("\n")
    words = lines[0].split()
    nodes, _, nv_switches, others, links = (int(w) for w in words[:5])
    check_devices([max(nodes, 1)], where, "nodes")
    check_links(2 * links, "topology", where, MAX_NAMED_LINKS)
    switches = {int(w) for w in lines[1].split() if w.isdecimal()}
    if len(switches) != nv_switches + others or max(switches, default=0) >= nodes:
        raise FormatError(
            f"line 2 lists {len(switches)} switches below {nodes}; line 1 says {nv_switches + others}",
            path=where,
        )
    gpus = [i for i in range(nodes) if i not in switches]
    name = {i: f"gpu.{k}" for k, i in enumerate(gpus)} | {i: f"switch.{i}" for i in switches}
    graph = DrawnGraph(where, devices=[name[i] for i in gpus])
    for number, line in enumerate(lines[2:], 3):
        if line.strip():
            graph.link(*_link(line.split(), name, f"{where}, line {number}"))
    if len(graph.links) != links:
        raise FormatError(f"{len(graph.links):,} links; line 1 says {links:,}", path=where)
    return graph.machine(_GPUS.get(words[5].upper(), ""), one_node=False)


def _link(words: list[str], name: dict[int, str], where: str) -> tuple[str, str, float, float]:
    ends = [int(w) for w in words[:2] if w.isdecimal() and len(w) < 10]
    rate = _RATE.fullmatch(words[2]) if len(words) > 2 else None
    time = _TIME.fullmatch(words[3]) if len(words) > 3 else None
    if len(ends) < 2 or not set(ends) <= set(name) or rate is None or time is None:
        raise FormatError(
            "not `END END 400Gbps 0.0005ms 0` between nodes that there are", path=where
        )
    bandwidth = float(rate[1]) * _SCALE[rate[2]] / 8
    return name[ends[0]], name[ends[1]], bandwidth, float(time[1]) * _SECONDS[time[2]]
