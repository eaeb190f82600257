"""Every option of every engine does what its engine says: one stream, served with and without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving import batch_limits, serve
from chakrakit.serving.engine import PRESETS, engine_from
from chakrakit.serving.results import ServeResult

STREAM = "poisson{rate=200,n=24,prompt=600,output=24,prefix=256,prefixes=2,priorities=2,adapters=4,seed=1}"
BASE = {
    "vllm": "num_gpu_blocks_override=400",
    "sglang": "max_total_tokens=6400",
    "trtllm": "",
    "transformers": "block_size=16, num_blocks=400, max_batch_tokens=512, capture_ms=0, "
    "capture_ms_per_layer=0",
}


@cache
def served(engine: str, options: str) -> ServeResult:
    text = ", ".join(part for part in (BASE[engine], options) if part)
    return serve("llama-3.1-8b", "dgx-h100", STREAM, f"{engine}{{{text}}}", compute="roofline")


Figure = Callable[[ServeResult], float]
TTFT: Figure = lambda r: r.ttft_ms.mean  # noqa: E731
TPOT: Figure = lambda r: r.tpot_ms.mean  # noqa: E731
STEPS: Figure = lambda r: r.steps  # noqa: E731
BATCH: Figure = lambda r: r.mean_batch  # noqa: E731
HITS: Figure = lambda r: r.cache_hit_rate  # noqa: E731
ROOM: Figure = lambda r: r.kv.capacity_tokens  # noqa: E731
EVICTED: Figure = lambda r: r.preemptions  # noqa: E731
END: Figure = lambda r: r.duration_s  # noqa: E731

EFFECTS = [
    ("vllm", "max_num_batched_tokens=256", STEPS, +1),
    ("vllm", "max_num_seqs=2", BATCH, -1),
    ("vllm", "enable_prefix_caching=false", HITS, -1),
    ("vllm", "long_prefill_token_threshold=64", STEPS, +1),
    ("vllm", "async_scheduling=false, host_ms=5", TPOT, +1),
    ("vllm", "cudagraph_capture_sizes=[512]", TPOT, +1),
    ("vllm", "scheduler_reserve_full_isl=false", EVICTED, +0),
    ("vllm", "num_speculative_tokens=3, acceptance=0.9", STEPS, -1),
    ("vllm", "sampling=sorted", TPOT, +1),
    ("vllm", "max_loras=1", BATCH, -1),
    ("vllm", "max_loras=8, max_lora_rank=256", TPOT, +1),
    ("vllm", "draft_ms=4", TPOT, +1),
    ("vllm", "output_ms=4", TPOT, +1),
    ("vllm", "launch_ms=30", TPOT, +1),
    ("vllm", "host_per_request_ms=20", TTFT, +1),
    ("sglang", "chunked_prefill_size=256", STEPS, +1),
    ("sglang", "max_prefill_tokens=600", STEPS, +1),
    ("sglang", "max_running_requests=2", BATCH, -1),
    ("sglang", "disable_radix_cache=true", HITS, -1),
    ("sglang", "enable_mixed_chunk=true", STEPS, -1),
    ("sglang", "cuda_graph_bs=[160]", TPOT, +1),
    ("sglang", "schedule_conservativeness=200", BATCH, -1),
    ("sglang", "speculative_num_steps=3, acceptance=0.9", STEPS, -1),
    ("sglang", "max_loras_per_batch=1", BATCH, -1),
    ("sglang", "scheduler_recv_interval=40", TTFT, +1),
    ("trtllm", "max_num_tokens=640", STEPS, +1),
    ("trtllm", "max_batch_size=2", BATCH, -1),
    ("trtllm", "free_gpu_memory_fraction=0.5", ROOM, -1),
    ("trtllm", "kv_cache_dtype=fp8", ROOM, +1),
    ("trtllm", "tokens_per_block=64", HITS, +0),
    ("trtllm", "enable_block_reuse=false", HITS, -1),
    ("trtllm", "max_draft_len=3, acceptance=0.9", STEPS, -1),
    ("trtllm", "batch_wait_timeout_iters=20, batch_wait_max_tokens_ratio=0.9", TTFT, +1),
    ("trtllm", "capacity_scheduler_policy=MAX_UTILIZATION", END, +0),
    ("trtllm", "enable_balance=true, timeout_iters=60", END, +0),
    ("transformers", "max_batch_tokens=128", STEPS, +1),
    ("transformers", "max_requests_per_batch=2", BATCH, -1),
    ("transformers", "allow_block_sharing=false", HITS, -1),
    ("transformers", "use_cuda_graph=false", TPOT, +1),
    ("transformers", "use_async_batching=false", TPOT, +1),
    ("transformers", "q_padding_interval_size=512", TPOT, +1),
    ("transformers", "kv_padding_interval_size=1024", END, +0),
    ("transformers", "scheduler_type=prefill_first", TTFT, +0),
    ("transformers", "warmup_ms=5000", TTFT, +1),
    ("transformers", "capture_ms=2000", TTFT, +1),
]


@pytest.mark.parametrize(("engine", "options", "figure", "sign"), EFFECTS)
def test_an_option_has_its_effect(engine: str, options: str, figure: Figure, sign: int) -> None:
    """More or less, as said; a sign of 0 is for what only must be served."""
    without, with_it = served(engine, ""), served(engine, options)
    assert with_it.finished == 24
    if sign:
        assert sign * (figure(with_it) - figure(without)) > 0


def test_every_option_is_tried_or_named_here() -> None:
    """An option that nobody tries is one that may do nothing."""
    elsewhere = {
        "num_gpu_blocks_override", "block_size", "gpu_memory_utilization", "max_model_len",
        "enable_chunked_prefill", "enforce_eager", "scheduling_policy", "kv_cache_dtype",
        "swap_space", "kv_offloading_size", "remote_gib", "remote_gbps", "host_ms", "acceptance",
        "max_total_tokens", "page_size", "mem_fraction_static", "disable_overlap_schedule",
        "disable_cuda_graph", "context_length", "hicache_size", "max_lora_rank",
        "max_seq_len", "disable_overlap_scheduler", "cuda_graph_batch_sizes", "host_cache_size",
        "num_blocks", "max_memory_percent", "safety_margin", "cpu_offload_space",
        "host_per_token_ms", "capture_ms_per_layer", "mask_bandwidth", "content_gib", "content_shared",
        "content_rotated", "content_gbps", "content_link_gbps", "content_recomputed",
    }  # fmt: skip
    tried = {part.split("=")[0].strip() for _, text, _, _ in EFFECTS for part in text.split(", ")}
    for preset in PRESETS.values():
        names = {f.name for f in msgspec.structs.fields(preset)}
        assert names <= tried | elsewhere


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("vllm{enforce_eager=true}", "graphs", ()),
        ("vllm{swap_space=2}", "swap_gib", 2.0),
        ("vllm{kv_offloading_size=3}", "offload_gib", 3.0),
        ("vllm{remote_gib=8, remote_gbps=5}", "remote_gbps", 5.0),
        ("vllm{scheduling_policy=priority}", "priorities", True),
        ("vllm{max_model_len=100}", "max_context", 100),
        ("vllm{enable_chunked_prefill=false}", "chunked", False),
        ("vllm{gpu_memory_utilization=0.5}", "memory_share", 0.5),
        ("sglang{page_size=32}", "block_size", 32),
        ("sglang{mem_fraction_static=0.5}", "memory_share", 0.5),
        ("sglang{disable_overlap_schedule=true}", "depth", 1),
        ("sglang{disable_cuda_graph=true}", "graphs", ()),
        ("sglang{context_length=7}", "max_context", 7),
        ("sglang{hicache_size=1}", "offload_gib", 1e9 / 2**30),
        ("trtllm{max_seq_len=9}", "max_context", 9),
        ("trtllm{host_cache_size=1073741824}", "offload_gib", 1.0),
        ("trtllm{disable_overlap_scheduler=true}", "depth", 1),
        ("trtllm{cuda_graph_batch_sizes=[4, 2]}", "graphs", (2, 4)),
        ("transformers{max_memory_percent=0.5}", "memory_share", 0.5),
        ("transformers{cpu_offload_space=2}", "swap_gib", 2.0),
        ("transformers{scheduler_type=prefill_first}", "safety_margin", 0.0),
        ("transformers{safety_margin=0.3}", "safety_margin", 0.3),
        ("transformers{num_blocks=7, block_size=32}", "num_blocks", 7),
    ],
)
def test_an_option_means_this_to_the_engine(text: str, name: str, value: object) -> None:
    assert getattr(engine_from(text), name) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vllm{max_num_seq=4}", "max_num_seq"),
        ("vllm{max_num_seqs=-1}", "max_requests is -1; it must be 1 or more"),
        ("vllm{remote_gbps=0}", "remote_gbps is 0"),
        ("sglang{page_size=0}", "block_size is 0"),
        (f"trtllm{{host_cache_size={10**400}}}", "a number is larger than any engine has"),
        ("tgi", "no engine 'tgi'; there are vllm"),
        ("sglang{acceptance=2}", "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        engine_from(text)


@pytest.mark.parametrize(
    ("text", "tokens", "requests"),
    [
        (
            "vllm{max_num_seqs=7}",
            ("max_num_batched_tokens", 8192, False),
            ("max_num_seqs", 7, True),
        ),
        (
            "trtllm{max_num_tokens=64}",
            ("max_num_tokens", 64, True),
            ("max_batch_size", 2048, False),
        ),
    ],
)
def test_the_limits_of_a_step_in_the_engine_s_own_words(text, tokens, requests) -> None:
    assert batch_limits(text) == {"batch_tokens": tokens, "batch_requests": requests}
