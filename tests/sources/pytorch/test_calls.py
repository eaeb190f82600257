"""Communication by any back end: one node each, with type, bytes, group, sequence and peer."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.calls import (
    RecordedCollective,
    assign_groups,
    name_peers,
    number_in_groups,
)
from chakrakit.trace.model import CollectiveType as C


def _nccl(recording, collective, kernel, *, splits="[]", peer=0):
    """An operator, its parameter record and its kernel, as NCCL leaves them."""
    recording.op(f"c10d::{collective}_", 0, 50, reads=(1,))
    values = [[7, False], ["3", "tp"], peer, collective, [], [], 0, 1, 4]
    recording.op(
        "record_param_comms",
        5,
        40,
        reads=(1,),
        values=values,
        collective_name=collective,
        dtype="BFloat16",
        in_msg_nelems=1000,
        out_msg_nelems=4000,
        in_split_size=splits,
        out_split_size=splits,
        pg_name="3",
        pg_size=4,
    )
    recording.launch(20, start=60, dur=100, stream=13, corr=5, name=kernel)
    (found,) = recording.link().collectives
    return recording.link(), found


@pytest.mark.parametrize(
    ("collective", "kernel", "kind"),
    [
        ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", C.ALL_REDUCE),
        ("allgather", "ncclDevKernel_Generic", C.ALL_GATHER),
        ("all_to_allv", "ncclDevKernel_SendRecv", C.ALL_TO_ALL),
        ("reduce", "rccl_main_kernel", C.REDUCE),
    ],
)
def test_nccl_and_rccl_by_what_the_host_says(recording, collective, kernel, kind):
    """The kernel stands for the collective; generic kernels are told by their host record."""
    rank, found = _nccl(recording, collective, kernel)
    assert rank.names[found.row] == kernel
    assert found.kind == kind
    assert (found.in_bytes, found.out_bytes, found.dtype) == (2000, 8000, "bfloat16")
    assert (found.group, found.group_size, found.sequence) == ("3", 4, 7)


def test_all_to_all_splits(recording):
    _, found = _nccl(recording, "all_to_allv", "ncclDevKernel_SendRecv", splits="[250, 750]")
    assert found.in_splits == found.out_splits == [250, 750]


def test_a_message_knows_its_peer(recording):
    _, found = _nccl(recording, "send", "ncclDevKernel_SendRecv", peer=3)
    assert (found.type_name, found.peer) == ("SEND", 3)


def test_an_unknown_collective_is_kept_with_its_raw_name(recording):
    _, found = _nccl(recording, "frobnicate", "ncclDevKernel_Frobnicate")
    assert (found.kind, found.type_name) == (words.UNKNOWN, "frobnicate")


def test_waiting_is_no_collective(recording):
    recording.op("_c10d_functional::wait_tensor", 0, 10, reads=(1,))
    recording.op("record_param_comms", 20, 5, collective_name="wait")
    assert recording.link().collectives == []


def test_a_kernel_alone_is_a_collective_too(recording):
    """Kineto alone, or a CUDA graph: only the kernel and what it carries is left."""
    recording.op("replay", 0, 10)
    recording.call("cudaGraphLaunch", 1, 2, corr=1)
    recording.kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        10,
        50,
        stream=13,
        corr=1,
        **{"In msg nelems": 10, "dtype": "Float", "Process Group Name": "0"},
    )
    (found,) = recording.link().collectives
    assert (found.kind, found.in_bytes, found.group) == (C.ALL_REDUCE, 40, "0")


def _made(kind=C.ALL_REDUCE, size=8, group=None, out=-1):
    return RecordedCollective(0, 0, kind, "x", in_bytes=size, out_bytes=out, group=group)


def test_the_only_group_there_is_needs_no_inference():
    found = [_made()]
    assert assign_groups(found, {"0": (0, 1)}, 0) == 0
    assert (found[0].group, found[0].inferred) == ("0", False)


def test_the_size_of_a_gather_tells_its_group():
    found = [_made(C.ALL_GATHER, size=8, out=32)]
    assign_groups(found, {"0": (0, 1, 2, 3), "1": (0, 1)}, 0)
    assert (found[0].group, found[0].inferred) == ("0", True)


def test_a_peer_is_named_by_its_rank_not_its_place_in_the_group():
    made = [_made(group=g) for g in ("rows", "rows", "0", None)]
    for c, kind, peer in zip(
        made, (words.SEND, words.RECV, words.SEND, words.SEND), (1, 0, 1, 1), strict=True
    ):
        c.kind, c.peer = kind, peer
    name_peers(made, {"rows": (1, 3), "0": (0, 1, 2, 3)})
    assert [c.peer for c in made] == [3, 1, 1, 1]


def test_missing_or_repeated_numbers_are_counted_anew():
    found = [_made(group="0"), _made(group="0"), _made(group="1")]
    found[0].sequence = found[1].sequence = 5
    found[2].sequence = 9
    number_in_groups(found)
    assert [c.sequence for c in found] == [0, 1, 9]
