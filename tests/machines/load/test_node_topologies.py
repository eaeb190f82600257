"""Machines from what a node says of itself, and from other simulators' topologies."""

from __future__ import annotations

import re

import numpy as np
import pytest

from chakrakit.errors import ChakraError, FormatError
from chakrakit.machines import load_machine
from support.commands import chakra, data, succeeded
from support.node_topologies import (
    AMD_SMI,
    AMD_SMI_JSON,
    HWLOC,
    MATRIX,
    NCCL,
    ROCM,
    ROCM_JSON,
    SIMAI,
)


@pytest.fixture
def loaded(tmp_path):
    def load(text, name="node"):
        (tmp_path / name).write_text(text)
        return load_machine(str(tmp_path / name))

    return load


def between(machine, a, b):
    """Bytes per second of the narrowest link from one device to another."""
    return machine.routes(np.array([a]), np.array([b])).bandwidth(machine.links)[0]


def test_nccl_s_switches_are_one_and_ranks_are_in_nccl_s_order(loaded):
    machine = loaded(NCCL)
    assert (machine.size, machine.device(0).name) == (2, "h100-sxm")
    assert between(machine, 0, 1) == 18 * 25e9
    first = machine.dimensions[0].fabric.names.index("pci.0000:81:00.0")
    assert first in machine.links.dst[machine.links.src == 0]
    assert any("PCI links without speed" in line for line in machine.assumed)


def test_without_nvlink_gpus_talk_over_sockets(loaded):
    machine = loaded(re.sub("<nvlink[^>]*/>", "", NCCL))
    assert between(machine, 0, 1) == 16e9


def test_hwloc_gives_gpus_at_the_speed_they_had_and_no_management_board(loaded):
    machine = loaded(HWLOC)
    assert machine.size == 2
    assert between(machine, 0, 1) == pytest.approx(15.753846e9)


def test_a_matrix_with_more_links_than_a_gpu_has_means_switches(loaded):
    machine = loaded(MATRIX)
    assert machine.size == 4
    assert between(machine, 0, 3) == 18 * 25e9


def test_a_matrix_of_few_links_means_direct_ones(loaded):
    machine = loaded(MATRIX.replace("NV18", "NV4"))
    assert (machine.size, between(machine, 0, 3)) == (4, 4 * 25e9)
    assert between(loaded(MATRIX.replace("NV18", "SYS")), 0, 3) == 16e9


AMD_SMI_BEFORE = (
    '[{"gpu": 0, "link_type": {"gpu_0": "SELF", "gpu_1": "XGMI"}},'
    ' {"gpu": 1, "link_type": {"gpu_0": "XGMI", "gpu_1": "SELF"}}]'
)


@pytest.mark.parametrize("text", [ROCM, ROCM_JSON, AMD_SMI, AMD_SMI_JSON, AMD_SMI_BEFORE])
def test_rocm_s_links(loaded, text):
    machine = loaded(text)
    assert (machine.size, machine.node_size, between(machine, 0, 1)) == (2, 2, 64e9)


def test_what_is_not_there_is_not_assumed(loaded):
    assert not any("xGMI" in sentence for sentence in loaded(ROCM.replace("XGMI", "PCIE")).assumed)


def test_an_adapter_that_is_off_is_said_to_be(loaded):
    off = loaded(NCCL.replace('speed="400000"', 'speed="-1"'))
    assert "adapter mlx5_0: off, its speed is '-1'" in off.assumed


def test_simai_s_servers_and_their_network(loaded):
    machine = loaded(SIMAI)
    assert (machine.size, machine.device(0).name) == (4, "h100-sxm")
    assert between(machine, 0, 1) == 360e9
    assert between(machine, 0, 2) == 50e9
    route = machine.routes(np.array([0]), np.array([2]))
    assert route.latency(machine.links)[0] == pytest.approx(1e-6)


def test_nodes_joined_by_a_described_network(tmp_path):
    (tmp_path / "node.xml").write_text(NCCL)
    (tmp_path / "cluster.yaml").write_text(
        "name: cluster\nnode: node.xml\n"
        "network: [{topology: switch, size: 4, bandwidth: 50 GB/s, latency: 2 us}]\n"
    )
    machine = load_machine(str(tmp_path / "cluster.yaml"))
    assert (machine.size, machine.node_size, machine.device(7).name) == (8, 2, "h100-sxm")
    assert between(machine, 0, 2) == 50e9
    assert between(machine, 2, 3) == 450e9
    assert machine.assumed


@pytest.mark.parametrize("node", ["../node.xml", "/etc/passwd", "", "3", "nothing.xml"])
def test_a_node_lies_beside_its_cluster(tmp_path, node):
    (tmp_path / "c.yaml").write_text(
        f"node: {node!r}\nnetwork: [{{topology: switch, size: 2, bandwidth: 1 GB/s}}]\n"
    )
    assert chakra("machines", tmp_path / "c.yaml").exit_code == 2


def test_what_was_assumed_is_shown_and_simulated_with(tmp_path):
    (tmp_path / "node.xml").write_text(NCCL)
    assert "assumed: NVLink: 25 GB/s" in succeeded("machines", tmp_path / "node.xml")
    assert data("machines", tmp_path / "node.xml")["machine"]["assumed"]
    succeeded("generate", "--model", "gpt3-125m", "--dp", 2, "--seq", 16, "-o", tmp_path / "w")
    result = data("simulate", tmp_path / "w", "--machine", tmp_path / "node.xml")
    assert any("assumed of node.xml: NVLink" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<!DOCTYPE a [<!ENTITY x "y">]>' + NCCL, "not"),
        (NCCL.replace("<system", "<!-- x --><system").replace("</system>", ""), "not XML"),
        (NCCL.replace('count="9"', 'count="9e9"'), "count"),
        (NCCL.replace(' busid="0000:81:00.0"', ""), "busid"),
        (NCCL.replace("0000:81:00.0", "0000:02:00.0"), "two <pci> have the busid"),
        ("<system></system>", "no GPU"),
        (MATRIX.replace("GPU1\tNV18", "GPU1\tNV6"), "GPU0 has NV18 to GPU1, and GPU1 has NV6"),
        (ROCM.replace("XGMI", "WIRE"), "'WIRE' is neither XGMI nor PCIE"),
        (MATRIX.replace("SYS\tSYS\t X", "SYS\t X"), "links for 5 columns"),
        (SIMAI.replace("4 5 6", "4 5"), "lists 2 switches"),
        (SIMAI.replace("0 6 400Gbps", "0 9 400Gbps"), "line 7"),
        (SIMAI.replace("7 2 2 1 8", "7 2 2 1 9"), "8 links"),
        (SIMAI.replace("7 2 2 1 8", "900000000 2 2 1 8"), "is the most"),
        ("\n" + SIMAI, "m"),
        (
            "<topology>" + "<object type='Group'>" * 300 + "</object>" * 300 + "</topology>",
            "deeper",
        ),
    ],
)
def test_damage_is_named(loaded, text, problem):
    with pytest.raises(ChakraError, match=problem):
        loaded(text)


def test_a_file_may_begin_with_a_mark_and_end_its_lines_as_windows_does(loaded):
    machine = loaded("\ufeff" + NCCL.replace("\n", "\r\n"))
    assert between(machine, 0, 1) == between(loaded(NCCL), 0, 1)


def test_a_table_of_link_types_that_is_no_matrix_is_refused(loaded):
    row = "0000:22:00.0 XGMI         SELF\n"
    for damaged in ("", "0000:22:00.0 XGMI\n"):
        with pytest.raises(FormatError, match="not a square matrix of PCI addresses"):
            loaded(AMD_SMI.replace(row, damaged))
