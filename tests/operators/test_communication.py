"""Names of communication: operators, a library's records, kernels."""

import pytest

from chakrakit.operators import (
    Work,
    collective_of,
    is_communication,
    is_device_record,
    is_dispatched,
    is_kernel,
    is_record,
    operator_of,
)
from chakrakit.trace.model import CollectiveType


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t", True),
        ("rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", True),
        ("mscclKernel_Sum_half_Simple", True),
        ("nccl:all_reduce", False),
        ("ampere_bf16_s16816gemm_bf16_128x128", False),
    ],
)
def test_kernels(name, kernel):
    assert is_kernel(name) is kernel


@pytest.mark.parametrize(
    ("name", "record", "by_device"),
    [
        ("nccl:all_reduce", True, True),
        ("rccl:send 1->2", True, True),
        ("gloo:all_reduce", True, False),
        ("hccl:broadcast", True, False),
        ("ncclDevKernel_AllGather", False, True),
        ("nccl", False, True),
        ("aten::mm", False, False),
    ],
)
def test_what_a_library_writes_of_a_call(name, record, by_device):
    assert (is_record(name), is_device_record(name)) == (record, by_device)


def test_functional_collectives_come_down_to_dispatched_ones():
    assert is_communication("_c10d_functional::all_reduce")
    assert not is_dispatched("_c10d_functional::all_reduce")
    assert is_dispatched("c10d::allreduce_")
    assert not is_dispatched("c10d::monitored_barrier_")
    assert operator_of("c10d::allreduce_").work is Work.COMMUNICATION
    assert operator_of("_c10d_functional::wait_tensor").work is Work.FUSED


@pytest.mark.parametrize("kind", [k.name for k in CollectiveType])
def test_collectives_have_chakras_names(kind):
    told = collective_of(kind.lower().replace("scatter_block", "scatter"))
    assert told in (kind, kind.removesuffix("_BLOCK"))
