"""What an engine is to the simulator: one set of options, whichever engine they were named after."""

from __future__ import annotations

from typing import Literal

import msgspec

from chakrakit.errors import ConfigError

Discipline = Literal["continuous", "prefill_alone", "transformers"]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options in the simulator's own terms. Times are milliseconds.

    `num_blocks` is 0 where memory decides. `memory_share` of the device is the engine's; with
    `share_of_free` that share is taken of what weights leave. `depth` 2 forms a step while the one
    before it runs, so that the engine's own time is hidden; it shows where steps are shorter.
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
    memory_share: float = 0.9
    share_of_free: bool = False
    swap_gib: float = 0.0
    offload_gib: float = 0.0
    """Host memory for cached content that leaves the device."""
    remote_gib: float = 0.0
    remote_gbps: float = 10.0
    """A store of cached content that all engines share, and its bandwidth to a device in GB/s."""
    depth: int = 1
    graphs: tuple[int, ...] = ()
    """Batch sizes that decode-only steps are padded to."""
    eager: bool = False
    """Whether the host launches every kernel, so that its time bounds the step's."""
    padding: tuple[int, int] | None = None
    """Multiples that all query tokens and all context of a step are padded to, as wholes."""
    capture_ms: float = 0.0
    capture_ms_per_layer: float = 0.0
    """Recording the graph of a new padded shape, once for each set of buffers."""
    warmup_ms: float = 0.0
    """What the first step takes beyond its own time."""
    mask_bandwidth: float = 0.0
    """Bytes a second at which a step's mask, of all queries by all of the cache, goes to the device."""
    host_ms: float = 0.0
    host_per_request_ms: float = 0.0
    host_per_token_ms: float = 0.0
    output_ms: float = 0.0
    launch_ms: float = 0.0
    frontend_ms: float = 0.0
    """Between a request's arrival and its place in the queue."""
    serial_per_request_ms: float = 0.0
    serial_ms: float = 0.0
    """The part of a step on the host that the device waits for; a step takes at least `launch_ms`."""
    drafts: int = 0
    acceptance: float = 0.0
    draft_ms: float = 0.0
    max_adapters: int = 0
    adapter_rank: int = 16
    max_context: int = 0
    """Most tokens of a request, prompt and output; 0: what the cache holds."""
    priorities: bool = False
    """Whether a request's priority decides its place in the queue."""
    cache_dtype: str = ""
    """Element type of the cache; by default the model's."""

    def check(self) -> None:
        """Every number makes sense."""
        least = {"block_size": 1, "token_budget": 1, "max_requests": 1, "depth": 1, "num_blocks": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ConfigError(
                    f"engine {self.name}: {name} is {getattr(self, name)}; it must be {low} or more"
                )
        if not 0 < self.memory_share <= 1:
            raise ConfigError(
                f"engine {self.name}: a memory share of {self.memory_share} is not in (0, 1]"
            )
        if not 0 <= self.acceptance <= 1 or not 0 <= self.safety_margin < 1:
            raise ConfigError(
                f"engine {self.name}: acceptance and safety margin are shares between 0 and 1"
            )
        times = (
            "host_ms",
            "host_per_request_ms",
            "host_per_token_ms",
            "serial_ms",
            "serial_per_request_ms",
            "frontend_ms",
            "output_ms",
            "launch_ms",
            "warmup_ms",
            "capture_ms_per_layer",
            "draft_ms",
        )
        if not 0 < self.remote_gbps < float("inf"):
            raise ConfigError(
                f"engine {self.name}: remote_gbps is {self.remote_gbps}; give more than 0"
            )
        for name in (
            *times,
            "swap_gib",
            "offload_gib",
            "remote_gib",
            "drafts",
            "output_reserve",
            "chunk_limit",
        ):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(
                    f"engine {self.name}: {name} is {getattr(self, name)}; it must be 0 or more"
                )
