"""Which collective a name speaks of."""

import pytest

from chakrakit.operators import is_communication
from chakrakit.sources.pytorch.names import RECV, SEND, UNKNOWN, kind_of
from chakrakit.trace.model import CollectiveType as C


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("c10d::allreduce_", C.ALL_REDUCE),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", C.REDUCE_SCATTER),
        ("_c10d_functional::all_gather_into_tensor", C.ALL_GATHER),
        ("gloo:all_to_all", C.ALL_TO_ALL),
        ("nccl:_reduce_oop", C.REDUCE),
        ("gloo:gather", C.GATHER),
        ("gloo:send", SEND),
        ("c10d::recv_any_source_", RECV),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", C.ALL_REDUCE),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t", C.ALL_GATHER),
        ("ncclDevKernel_Broadcast_RING_LL", C.BROADCAST),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", C.REDUCE),
        ("_allgather_base_", C.ALL_GATHER),
        ("_reduce_scatter_base", C.REDUCE_SCATTER),
        ("all_to_allv", C.ALL_TO_ALL),
        ("c10d::alltoall_base_", C.ALL_TO_ALL),
        ("gloo:barrier", C.BARRIER),
        ("c10d::recv_", RECV),
        ("isend", SEND),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", UNKNOWN),
        ("ncclDevKernel_Generic(ncclDevComm*)", UNKNOWN),
        ("aten::mm", UNKNOWN),
    ],
)
def test_longer_words_come_first(name, kind):
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("operator", "moves"),
    [
        ("c10d::allreduce_", True),
        ("_c10d_functional::all_reduce", True),
        ("_c10d_functional::wait_tensor", False),
        ("c10d::monitored_barrier_", False),
        ("aten::all_reduce", False),
    ],
)
def test_waiting_is_no_communication(operator, moves):
    assert is_communication(operator) is moves
