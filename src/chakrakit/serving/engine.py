"""Engines as one set of options, and presets of real engines.

The presets take the options of vLLM, SGLang, TensorRT-LLM and transformers under the engines' own names.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NoReturn

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.operators import rate_name
from chakrakit.passes.base import split
from chakrakit.trace.timing import HORIZON_NS

Discipline = Literal["continuous", "prefill_alone", "transformers"]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options in the simulator's own terms. Times are milliseconds.

    With `num_blocks` 0 the blocks follow from memory. The engine uses `memory_share` of the device, or with
    `share_of_free` that share of what the weights leave. With `depth` 2 a step is formed while the one
    before it runs, which hides the engine's own time unless steps are shorter than that.
    """

    name: str = "engine"
    block_size: int = 16
    num_blocks: int = 0
    token_budget: int = 8192
    max_requests: int = 256
    chunk_limit: int = 0
    discipline: Discipline = "continuous"
    chunked: bool = True
    prefill_first: bool = False
    prefix_cache: bool = True
    whole_prompt: bool = False
    safety_margin: float = 0.0
    output_reserve: float = 0.0
    no_evict: bool = False
    """Whether a request starts only if it and all that run can end without putting one aside."""
    gather_steps: int = 0
    gather_share: float = 0.0
    """Steps that new prompts wait beside requests that decode, unless they are tokens enough: this share of
    `token_budget`."""
    balance_steps: int = 0
    """Steps that new prompts wait until each of the ranks that step together has one."""
    look_steps: int = 0
    """Decoding steps between two looks at the queue."""
    memory_share: float = 0.9
    share_of_free: bool = False
    swap_gib: float = 0.0
    offload_gib: float = 0.0
    """Host memory for cached content that leaves the device."""
    remote_gib: float = 0.0
    remote_gbps: float = 10.0
    """Bandwidth in GB/s between a device and the store of `remote_gib`, which all engines share."""
    content_gib: float = 0.0
    """Device memory for content that is found wherever it stands in a prompt, not only in a prefix."""
    content_shared: bool = False
    """Whether engines share it: each holds a part, and gets the rest from the others."""
    content_rotated: float = 1.0
    """Share of a token's cache that is read and written to put it at another place."""
    content_gbps: float = 1000.0
    """GB/s at which that happens."""
    content_link_gbps: float = 25.0
    """GB/s from another engine."""
    content_recomputed: float = 0.0
    """Share of the found tokens that are computed all the same."""
    depth: int = 1
    graphs: tuple[int, ...] = ()
    """Batch sizes that decode-only steps are padded to."""
    eager: bool = False
    """Whether the host launches every kernel, so that its time bounds the step's."""
    padding: tuple[int, int] | None = None
    """Multiples to which the sum of query tokens and the sum of context of a step are padded."""
    capture_ms: float = 0.0
    capture_ms_per_layer: float = 0.0
    """Time to record the graph of a new padded shape, once for each set of buffers."""
    warmup_ms: float = 0.0
    """Additional time of the first step."""
    mask_bandwidth: float = 0.0
    """Bytes per second at which a step's mask (all queries by all of the cache) is copied to the device."""
    host_ms: float = 0.0
    host_per_request_ms: float = 0.0
    host_per_token_ms: float = 0.0
    output_ms: float = 0.0
    launch_ms: float = 0.0
    prompt_launch_ms: float = 0.0
    """The least time of a step with a prompt: no graph holds it, so that the host launches its kernels."""
    frontend_ms: float = 0.0
    """Between a request's arrival and its place in the queue."""
    serial_per_request_ms: float = 0.0
    serial_ms: float = 0.0
    """Time of a step on the host that the device waits for; a step takes at least `launch_ms`."""
    drafts: int = 0
    acceptance: float = 0.0
    draft_ms: float = 0.0
    max_adapters: int = 0
    adapter_rank: int = 16
    max_context: int = 0
    """Most tokens of a request, prompt and output; 0 for as many as the cache holds."""
    priorities: bool = False
    """Whether a request's priority decides its place in the queue."""
    cache_dtype: str = ""
    """Element type of the cache; by default the model's."""
    sorted_sampling: bool = False
    """Whether tokens are drawn from sorted logits (top-k, top-p) instead of taking the largest."""

    def check(self) -> None:
        """Raises an error where an option is out of range."""
        for name, (low, high) in _BOUNDS.items():
            if not low <= (value := getattr(self, name)) < math.inf:
                self._refuse(name, f"it must be {low} or more")
            if value > high:
                self._refuse(name, f"{high:,} is the most")
        for name in ("graphs", "padding"):
            if not all(1 <= size <= MOST_COUNT for size in getattr(self, name) or ()):
                self._refuse(name, f"its sizes must be from 1 to {MOST_COUNT:,}")
        host = self.host_ms + self.host_per_request_ms * self.max_requests
        serial = self.serial_ms + self.serial_per_request_ms * self.max_requests
        if max(host + self.host_per_token_ms * self.token_budget, serial) > _MOST_MS:
            self._refuse("max_requests", "a step of so many would keep the host for 50 days")
        if not 0 < self.memory_share <= 1:
            self._refuse("memory_share", "it must be above 0 and at most 1")
        if not 0 <= self.acceptance <= 1:
            self._refuse("acceptance", "it must be between 0 and 1")
        if not 0 <= self.safety_margin < 1:
            self._refuse("safety_margin", "it must be 0 or more and below 1")
        if not 0 <= self.content_recomputed <= 1:
            self._refuse("content_recomputed", "it must be between 0 and 1")

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise ConfigError(f"engine {self.name}: {name} is {getattr(self, name)}; {expected}")


MOST_COUNT = 2**31 - 2
"""The most that the core counts of requests, blocks, or tokens of a step."""
_MOST_MS = HORIZON_NS // 10**6
_MOST_GIB = 2**30
"""An exbibyte."""
_MOST_GBPS = 1e9
_LEAST_GBPS = 1e-6
_BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("block_size", "token_budget", "max_requests", "depth"), (1, MOST_COUNT)),
    **dict.fromkeys(("num_blocks", "chunk_limit", "drafts"), (0, MOST_COUNT)),
    **dict.fromkeys(("max_adapters", "adapter_rank"), (0, MOST_COUNT)),
    **dict.fromkeys(("gather_steps", "balance_steps", "look_steps"), (0, MOST_COUNT)),
    **dict.fromkeys(("max_context", "output_reserve", "gather_share"), (0, math.inf)),
    **dict.fromkeys(("swap_gib", "offload_gib", "remote_gib", "content_gib"), (0, _MOST_GIB)),
    **dict.fromkeys(
        ("remote_gbps", "content_gbps", "content_link_gbps"), (_LEAST_GBPS, _MOST_GBPS)
    ),
    "content_rotated": (0, MOST_COUNT),
    **dict.fromkeys(("host_ms", "host_per_request_ms", "host_per_token_ms"), (0, _MOST_MS)),
    **dict.fromkeys(("serial_ms", "serial_per_request_ms", "output_ms"), (0, _MOST_MS)),
    **dict.fromkeys(("launch_ms", "prompt_launch_ms", "frontend_ms"), (0, _MOST_MS)),
    **dict.fromkeys(("warmup_ms", "capture_ms", "capture_ms_per_layer"), (0, _MOST_MS)),
    "draft_ms": (0, _MOST_MS),
    "mask_bandwidth": (0, 1e30),
}
"""The least and the most of every number."""


# --- presets ------------------------------------------------------------------------------------
#
# Options have the names that the engine itself uses. Every preset also takes options of the simulator that
# engines do not have: host_ms, host_per_request_ms and output_ms (the engine's own time before a step, for
# each request in it and after it), launch_ms (the least time of a step), acceptance and draft_ms (of
# speculative decoding), remote_gib and remote_gbps (a store of cached content that engines share).


VLLM_GRAPHS = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Batch sizes vLLM captures by default."""
SGLANG_GRAPHS = (1, 2, 4, 8, *range(16, 161, 8))
SGLANG_NEW_TOKEN_RATIO = 0.7
"""SGLang counts this share of the output still to come before it admits a request
(SGLANG_INIT_NEW_TOKEN_RATIO); it then decays as decoding goes on, which is not modelled."""


TRANSFORMERS_HOST_MS = 0.7
"""Constant time to schedule and prepare a step on the host. This and the next two are fitted to the time
stamps of four recorded runs of transformers 5.17 with one H200, in which it took 3.2 to 5.0 ms on average
and 12 ms with 2,048 tokens."""
TRANSFORMERS_HOST_PER_REQUEST_MS = 0.12
"""The same for each request of the step."""
TRANSFORMERS_HOST_PER_TOKEN_MS = 0.003
"""The same for each token of the step."""
TRANSFORMERS_OUTPUT_MS = 0.2
"""Handing out a step's tokens, from the same runs."""
TRANSFORMERS_LAUNCH_MS = 102.0
"""The least time of a step whose kernels the host launches one by one, whatever the model. From two recorded
runs of 16 and 32 layers, whose steps take 100.5 and 101.0 ms on average and differ by 10 % between runs."""
TRANSFORMERS_SERIAL_MS = 50.0
"""The part of that time before the device's own, where the device takes longer. From the same runs."""
TRANSFORMERS_CAPTURE_MS = 28.0
"""Time to record a graph, for a model without layers. From two recorded runs: the time that steps blocked the
host, less the steps they waited for, over the first two uses of each padded shape, was 76 ms for 16 layers
and 124 ms for 32."""
TRANSFORMERS_CAPTURE_MS_PER_LAYER = 3.0
"""What each layer adds to it, from the same runs."""
TRANSFORMERS_WARMUP_MS = 850.0
"""The first step, from the same runs: 0.7 to 1.0 s beyond a usual one."""
TRANSFORMERS_MASK_BANDWIDTH = 55e9
"""The whole mask is copied to the device for every step; 545 MB took 9.9 ms in a profile of one step."""


class _Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options that all presets take."""

    host_ms: float = 0.0
    host_per_request_ms: float = 0.0
    output_ms: float = 0.0
    launch_ms: float | None = None
    acceptance: float = 0.7
    draft_ms: float = 0.0
    remote_gib: float = 0.0
    remote_gbps: float = 10.0
    content_gib: float = 0.0
    content_shared: bool = False
    content_rotated: float = 1.0
    content_gbps: float = 1000.0
    content_link_gbps: float = 25.0
    content_recomputed: float = 0.0

    def _common_options(self) -> dict[str, Any]:
        names = (
            "host_ms",
            "host_per_request_ms",
            "output_ms",
            "launch_ms",
            "acceptance",
            "draft_ms",
            "remote_gib",
            "remote_gbps",
            "content_gib",
            "content_shared",
            "content_rotated",
            "content_gbps",
            "content_link_gbps",
            "content_recomputed",
        )
        return {n: 0.0 if getattr(self, n) is None else getattr(self, n) for n in names}

    def options(self) -> EngineOptions:
        """In the simulator's terms."""
        raise NotImplementedError


def _cache_type(option: str) -> str:
    """The element type of an engine's KV cache, from its own option; empty for that of the model."""
    return "" if option == "auto" else rate_name(option)


class Vllm(_Preset, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """vLLM, version 1 engine; defaults of its server on devices of 70 GiB and more."""

    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 1024
    max_model_len: int = 0
    block_size: int = 16
    num_gpu_blocks_override: int = 0
    gpu_memory_utilization: float = 0.9
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    scheduler_reserve_full_isl: bool = True
    async_scheduling: bool = True
    enforce_eager: bool = False
    cudagraph_capture_sizes: tuple[int, ...] = VLLM_GRAPHS
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8"] = "auto"
    swap_space: float = 0.0
    kv_offloading_size: float = 0.0
    num_speculative_tokens: int = 0
    max_loras: int = 0
    max_lora_rank: int = 16
    sampling: Literal["greedy", "sorted"] = "greedy"
    """`sorted` for requests with top-k or top-p by its own sampler, `greedy` also for FlashInfer's, which
    takes little; the server takes both limits from a model's `generation_config.json` where requests have
    none."""

    def options(self) -> EngineOptions:
        """In the simulator's terms."""
        return EngineOptions(
            name="vllm",
            sorted_sampling=self.sampling == "sorted",
            block_size=self.block_size,
            num_blocks=self.num_gpu_blocks_override,
            token_budget=self.max_num_batched_tokens,
            max_requests=self.max_num_seqs,
            chunk_limit=self.long_prefill_token_threshold,
            chunked=self.enable_chunked_prefill,
            prefix_cache=self.enable_prefix_caching,
            whole_prompt=self.scheduler_reserve_full_isl,
            memory_share=self.gpu_memory_utilization,
            swap_gib=self.swap_space,
            offload_gib=self.kv_offloading_size,
            depth=2 if self.async_scheduling else 1,
            graphs=() if self.enforce_eager else tuple(sorted(set(self.cudagraph_capture_sizes))),
            eager=self.enforce_eager,
            drafts=self.num_speculative_tokens,
            max_adapters=self.max_loras,
            adapter_rank=self.max_lora_rank,
            max_context=self.max_model_len,
            priorities=self.scheduling_policy == "priority",
            cache_dtype=_cache_type(self.kv_cache_dtype),
            **self._common_options(),
        )


class Sglang(_Preset, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SGLang: prompts in steps of their own and first, a radix cache, overlapped scheduling."""

    chunked_prefill_size: int = 8192
    max_prefill_tokens: int = 16384
    max_running_requests: int = 2048
    """The least that SGLang allows by default; it is more where the cache holds many whole contexts."""
    max_total_tokens: int = 0
    page_size: int = 1
    mem_fraction_static: float = 0.88
    schedule_conservativeness: float = 1.0
    scheduler_recv_interval: int = 1
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    disable_cuda_graph: bool = False
    enable_mixed_chunk: bool = False
    cuda_graph_bs: tuple[int, ...] = SGLANG_GRAPHS
    context_length: int = 0
    hicache_size: float = 0.0
    kv_cache_dtype: Literal["auto", "fp8_e4m3", "fp8_e5m2"] = "auto"
    speculative_num_steps: int = 0
    max_loras_per_batch: int = 0
    max_lora_rank: int = 16

    def options(self) -> EngineOptions:
        """In the simulator's terms."""
        chunks = self.chunked_prefill_size > 0
        budget = (
            min(self.max_prefill_tokens, self.chunked_prefill_size)
            if chunks
            else self.max_prefill_tokens
        )
        return EngineOptions(
            name="sglang",
            block_size=self.page_size,
            num_blocks=self.max_total_tokens // max(self.page_size, 1),
            token_budget=budget,
            max_requests=self.max_running_requests,
            chunked=chunks,
            discipline="continuous" if self.enable_mixed_chunk else "prefill_alone",
            prefix_cache=not self.disable_radix_cache,
            memory_share=self.mem_fraction_static,
            whole_prompt=True,
            offload_gib=self.hicache_size * 1e9 / 2**30,
            output_reserve=SGLANG_NEW_TOKEN_RATIO * self.schedule_conservativeness,
            look_steps=self.scheduler_recv_interval,
            depth=1 if self.disable_overlap_schedule else 2,
            graphs=() if self.disable_cuda_graph else tuple(sorted(set(self.cuda_graph_bs))),
            eager=self.disable_cuda_graph,
            drafts=self.speculative_num_steps,
            max_adapters=self.max_loras_per_batch,
            adapter_rank=self.max_lora_rank,
            max_context=self.context_length,
            cache_dtype=_cache_type(self.kv_cache_dtype),
            **self._common_options(),
        )


class Trtllm(_Preset, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TensorRT-LLM: in-flight batching, which admits a request when it fits to its end.

    `timeout_iters` holds where `enable_balance` is on, as in its `attention_dp_config`.
    """

    max_num_tokens: int = 8192
    max_batch_size: int = 2048
    max_seq_len: int = 0
    tokens_per_block: int = 32
    free_gpu_memory_fraction: float = 0.9
    enable_block_reuse: bool = True
    enable_chunked_prefill: bool = True
    disable_overlap_scheduler: bool = False
    capacity_scheduler_policy: Literal["GUARANTEED_NO_EVICT", "MAX_UTILIZATION"] = (
        "GUARANTEED_NO_EVICT"
    )
    batch_wait_timeout_iters: int = 0
    batch_wait_max_tokens_ratio: float = 0.0
    enable_balance: bool = False
    timeout_iters: int = 50
    cuda_graph_batch_sizes: tuple[int, ...] = VLLM_GRAPHS
    max_draft_len: int = 0
    host_cache_size: int = 0
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"

    def options(self) -> EngineOptions:
        """In the simulator's terms."""
        return EngineOptions(
            name="trtllm",
            block_size=self.tokens_per_block,
            token_budget=self.max_num_tokens,
            max_requests=self.max_batch_size,
            chunked=self.enable_chunked_prefill,
            prefix_cache=self.enable_block_reuse,
            whole_prompt=True,
            no_evict=self.capacity_scheduler_policy == "GUARANTEED_NO_EVICT",
            gather_steps=self.batch_wait_timeout_iters,
            gather_share=self.batch_wait_max_tokens_ratio,
            balance_steps=self.timeout_iters if self.enable_balance else 0,
            memory_share=self.free_gpu_memory_fraction,
            share_of_free=True,
            offload_gib=self.host_cache_size / 2**30,
            depth=1 if self.disable_overlap_scheduler else 2,
            graphs=tuple(sorted(set(self.cuda_graph_batch_sizes))),
            drafts=self.max_draft_len,
            max_context=self.max_seq_len,
            cache_dtype=_cache_type(self.kv_cache_dtype),
            **self._common_options(),
        )


class Transformers(_Preset, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Continuous batching of Hugging Face transformers."""

    block_size: int = 256
    num_blocks: int = 0
    max_batch_tokens: int = 2048
    max_requests_per_batch: int = 1024
    max_memory_percent: float = 0.9
    allow_block_sharing: bool = True
    use_cuda_graph: bool = True
    use_async_batching: bool = True
    q_padding_interval_size: int = 64
    kv_padding_interval_size: int = 16384
    scheduler_type: Literal["fifo", "prefill_first"] = "fifo"
    safety_margin: float | None = None
    cpu_offload_space: float = 0.0
    host_ms: float = TRANSFORMERS_HOST_MS
    host_per_request_ms: float = TRANSFORMERS_HOST_PER_REQUEST_MS
    host_per_token_ms: float = TRANSFORMERS_HOST_PER_TOKEN_MS
    output_ms: float = TRANSFORMERS_OUTPUT_MS
    capture_ms: float = TRANSFORMERS_CAPTURE_MS
    capture_ms_per_layer: float = TRANSFORMERS_CAPTURE_MS_PER_LAYER
    warmup_ms: float = TRANSFORMERS_WARMUP_MS
    mask_bandwidth: float = TRANSFORMERS_MASK_BANDWIDTH

    def options(self) -> EngineOptions:
        """In the simulator's terms."""
        fifo = self.scheduler_type == "fifo"
        margin = (0.15 if fifo else 0.0) if self.safety_margin is None else self.safety_margin
        return EngineOptions(
            name="transformers",
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            token_budget=self.max_batch_tokens,
            max_requests=self.max_requests_per_batch,
            discipline="transformers",
            prefill_first=not fifo,
            prefix_cache=self.allow_block_sharing,
            safety_margin=margin,
            memory_share=self.max_memory_percent,
            share_of_free=True,
            swap_gib=self.cpu_offload_space,
            depth=2 if self.use_async_batching else 1,
            eager=not self.use_cuda_graph,
            padding=(self.q_padding_interval_size, self.kv_padding_interval_size)
            if self.use_cuda_graph
            else (1, 1),
            capture_ms=self.capture_ms if self.use_cuda_graph else 0.0,
            capture_ms_per_layer=self.capture_ms_per_layer if self.use_cuda_graph else 0.0,
            warmup_ms=self.warmup_ms,
            mask_bandwidth=self.mask_bandwidth if self.use_cuda_graph else 0.0,
            host_per_token_ms=self.host_per_token_ms,
            serial_ms=0.0 if self.use_cuda_graph else TRANSFORMERS_SERIAL_MS,
            **{**self._common_options(), "launch_ms": self._launch()},
        )

    def _launch(self) -> float:
        """The least a step takes: kernels launched one by one take their time, a graph none."""
        if self.launch_ms is not None:
            return self.launch_ms
        return 0.0 if self.use_cuda_graph else TRANSFORMERS_LAUNCH_MS


PRESETS: dict[str, type[_Preset]] = {
    "vllm": Vllm,
    "sglang": Sglang,
    "trtllm": Trtllm,
    "transformers": Transformers,
}


def engine_from(text: str | EngineOptions) -> EngineOptions:
    """The options of `name{option=value}`."""
    if isinstance(text, EngineOptions):
        text.check()
        return text
    name, fields = split(text, "--engine")
    if name not in PRESETS:
        raise ConfigError(f"--engine {text!r}: no engine {name!r}; there are {', '.join(PRESETS)}")
    try:
        options = msgspec.convert(fields, PRESETS[name], strict=False).options()
    except msgspec.ValidationError as error:
        known = PRESETS[name].__struct_fields__
        wrong = [field for field in fields if field not in known]
        if wrong:
            raise ConfigError(
                f"--engine {text!r}: {name} has no option {wrong[0]!r}; {nearest(wrong[0], known, 16)}"
            ) from None
        raise ConfigError(f"--engine {text!r}: {error}") from None
    except OverflowError:
        raise ConfigError(f"--engine {text!r}: a number is larger than any engine has") from None
    options.check()
    return options


_LIMITS = {
    "vllm": ("max_num_batched_tokens", "max_num_seqs"),
    "sglang": ("chunked_prefill_size", "max_running_requests"),
    "trtllm": ("max_num_tokens", "max_batch_size"),
    "transformers": ("max_batch_tokens", "max_requests_per_batch"),
}


def batch_limits(text: str) -> dict[str, tuple[str, int, bool]]:
    """The limits of a step's tokens and requests: the option's name, its value, whether `text` sets it."""
    options = engine_from(text)
    name, fields = split(text, "--engine")
    tokens, requests = _LIMITS[name]
    return {
        "batch_tokens": (tokens, options.token_budget, tokens in fields),
        "batch_requests": (requests, options.max_requests, requests in fields),
    }
