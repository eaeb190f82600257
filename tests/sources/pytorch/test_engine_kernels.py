"""Communication that is not a library's own operator: kernels of serving engines and expert exchanges."""

from __future__ import annotations

import pytest

from chakrakit.operators import KNOWN_KERNELS, CommunicationKernels, added_kernel, is_kernel
from chakrakit.sources.pytorch.linking.rank import rank_parts
from chakrakit.sources.pytorch.linking.report import report_rank
from chakrakit.sources.pytorch.read import read_kineto
from chakrakit.trace.model import CollectiveType

REDUCE, EXCHANGE = CollectiveType.ALL_REDUCE, CollectiveType.ALL_TO_ALL


def linked(recording, kernels=KNOWN_KERNELS):
    kineto = read_kineto(recording.kineto_json().encode(), "k.json")
    parts = rank_parts(0, None, kineto, kernels=kernels)
    return parts.linked(None)


def kernel_in(recording, operator, kernel, at=0, dims=None):
    """An operator that launches one kernel of 5 µs."""
    recording.op(operator, at, 30)
    recording.events[-1]["args"] |= dims or {}
    recording.launch(at + 2, start=at + 10, dur=5, corr=at + 1, name=kernel)


BF16 = {"Input Dims": [[1024], [], []], "Input type": ["c10::BFloat16", "", ""]}


def test_an_all_reduce_in_symmetric_memory_has_the_bytes_of_its_operator(recording):
    kernel_in(
        recording, "symm_mem::multimem_all_reduce_", "multimem_all_reduce_kernel<bf16>", 0, BF16
    )
    (call,) = linked(recording).collectives
    assert (call.kind, call.in_bytes) == (REDUCE, 2048)


def test_a_wide_operator_does_not_lend_its_tensors_to_a_kernel_inside(recording):
    kernel_in(recording, "vllm::moe_forward", "deep_ep::internode_ll::dispatch<true>", 0, BF16)
    (call,) = linked(recording).collectives
    assert (call.kind, call.in_bytes) == (EXCHANGE, -1)


def test_all_kernels_of_an_operator_count_and_the_longest_has_its_bytes(recording):
    kernel_in(recording, "deep_ep::dispatch", "deep_ep::intranode::notify_dispatch<8>", 0, BF16)
    recording.launch(5, start=16, dur=9, corr=99, name="deep_ep::intranode::dispatch<8>")
    calls = linked(recording).collectives
    assert sorted(c.in_bytes for c in calls) == [-1, 2048]
    assert {c.kind for c in calls} == {EXCHANGE}


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(…)", "ALL_REDUCE"),
        ("void sglang::cross_device_reduce_2stage<half, 4>", "ALL_REDUCE"),
        ("quickreduce::allreduce_prototype_twoshot<…>", "ALL_REDUCE"),
        ("allreduce_fusion_kernel_oneshot_lamport<…>", "ALL_REDUCE"),
        ("void tensorrt_llm::kernels::moeA2ADispatchKernel<…>", "ALL_TO_ALL"),
        ("two_shot_all_reduce_kernel_inplace<float, 16>", "ALL_REDUCE"),
        ("void build42::internode::combine<…>", "ALL_TO_ALL"),
        ("void x::intranode::cached_notify_combine<8>", "BARRIER"),
        ("hcom_allReduce__321_2_1", ""),
        ("mori::moe::EpDispatchIntraNodeKernel<…>", "ALL_TO_ALL"),
        ("nvshmemi_broadcast_kernel", ""),
        ("oneccl_allreduce_pcie", ""),
        ("void ucp_device_put_single<(ucs_device_level_t)1>(…)", ""),
        ("EpCombineIntraNodeKernel_bf16", "ALL_TO_ALL"),
        ("void mscclpp::ep::dispatch<…>", "ALL_TO_ALL"),
        (
            "void (anonymous namespace)::all_reduce_one_shot_push_kernel<bf16, 4u, true>(…)",
            "ALL_REDUCE",
        ),
        ("void all_reduce_residual_rms_norm_push_kernel<8u, true>(…)", "ALL_REDUCE"),
        ("void aiter::allgather_lastdim<bf16, 8>(…)", "ALL_GATHER"),
        (
            "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankData",
            "REDUCE_SCATTER",
        ),
        ("void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<…>", "ALL_REDUCE"),
        ("void flashinfer::comm::ulysses::ulysses_a2a_kernel<…>", "ALL_TO_ALL"),
        ("void deep_ep::elastic::dispatch_impl<true, 3>(…)", "ALL_TO_ALL"),
        ("void deep_ep::ep::hybrid_combine_impl<…>", "ALL_TO_ALL"),
        ("void deep_ep::bucket::rdma_all_gather<…>", ""),
        ("void deep_ep::elastic::pp_recv_impl<…>", "RECV"),
        ("void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)", "BARRIER"),
        ("void fcollect_on_stream_kernel<float>(…)", "ALL_GATHER"),
        ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", ""),
        ("ncclSymkDevKernel_ReduceScatter_LDMC_sum_bf16(ncclSymkDevWorkArgs4K)", ""),
        ("void a2a_dispatch_send_kernel<true, 16, …>(…)", "ALL_TO_ALL"),
        ("kernel_combine_token_intra_node", "ALL_TO_ALL"),
        ("void push_pull_halos_1d_kernel<…>(…)", ""),
    ],
)
def test_kernels_of_engines_by_the_last_parts_of_their_names(kernel, kind):
    assert is_kernel(kernel)
    assert CommunicationKernels().kind(kernel) == kind


@pytest.mark.parametrize(
    "kernel",
    [
        "groupnorm_kernel_dispatch_up",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
        "vectorized_gather_kernel<16, long>",
        "deep_ep::layout::get_dispatch_layout<256>",
        "deep_ep::ep::dispatch_copy_epilogue_impl<true>",
        "deep_ep::elastic::combine_reduce_epilogue_impl<true>",
        "aiter::local_device_load_rmsnorm<bf16>",
        "triton_poi_fused_all_gather_into_tensor_add_3",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>",
        "void at::native::index_put_kernel<…>",
        "void vllm::moe::moe_combine_topk<…>",
    ],
)
def test_computation_with_such_words_in_its_name_stays_computation(kernel):
    assert not is_kernel(kernel)
    assert kernel.startswith("deep_ep") or not CommunicationKernels().is_alike(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "void acme::ep::token_dispatch_send<…>",
        "mega_kernel_dispatch_token_moe_grouped_gemm",
        "kernel_consumer_ag_gemm_persistent",
        "kernel_gemm_rs_producer",
        "void ishmem_put_work_group<…>",
        "nccl_ep_combine_kernel",
        "mcclDevKernel_AllReduce_Sum_bf16_RING",
        "void minimax_reduce_rms_kernel_lamport<…>",
    ],
)
def test_kernels_of_libraries_nobody_told_of_look_like_communication(kernel):
    assert not is_kernel(kernel)
    assert CommunicationKernels().is_alike(kernel)


def test_a_kernel_that_looks_like_communication_is_reported_until_a_pattern_decides(recording):
    kernel_in(recording, "my::op", "acme_all_gather_v3")
    report = report_rank(linked(recording), [])
    assert report.like_communication == {"acme_all_gather_v3": 1}
    assert "--comm-pattern" in report.warnings[-1]
    decided = linked(recording, CommunicationKernels((added_kernel("^acme_=all-gather"),)))
    assert [c.kind for c in decided.collectives] == [CollectiveType.ALL_GATHER]
    denied = linked(recording, CommunicationKernels((added_kernel("^acme_=none"),)))
    assert denied.collectives == []
    assert report_rank(denied, []).like_communication == {}


@pytest.mark.parametrize("text", ["all-reduce", "x=", "x=sum", "(=all-reduce"])
def test_a_pattern_that_cannot_be_used_is_refused(text):
    with pytest.raises(ValueError, match=r"REGEX=KIND|not a regular expression"):
        added_kernel(text)


def test_a_graph_takes_one_place_in_the_launch_queue_however_many_kernels_it_runs(recording):
    """A graph of 1,100 kernels does not wait for its own first ones."""
    recording.call("hipGraphLaunch", 0, 300, corr=1)
    for i in range(1100):
        recording.kernel(f"k{i}", 10 + i, 0.5, corr=1)
    assert linked(recording).sound.circular == []
