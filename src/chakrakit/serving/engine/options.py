"""What an engine is to the simulator: one set of options, whichever engine they were named after."""

from __future__ import annotations

from typing import Literal, NoReturn

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
        for name, low in _LEAST.items():
            if not low <= getattr(self, name) < float("inf"):
                self._refuse(name, f"it must be {low} or more")
        if not 0 < self.memory_share <= 1:
            self._refuse("memory_share", "it must be above 0 and at most 1")
        if not 0 <= self.acceptance <= 1:
            self._refuse("acceptance", "it must be between 0 and 1")
        if not 0 <= self.safety_margin < 1:
            self._refuse("safety_margin", "it must be 0 or more and below 1")
        if not 0 < self.remote_gbps < float("inf"):
            self._refuse("remote_gbps", "give more than 0")

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise ConfigError(f"engine {self.name}: {name} is {getattr(self, name)}; {expected}")


_LEAST = {
    **dict.fromkeys(("block_size", "token_budget", "max_requests", "depth"), 1),
    **dict.fromkeys(("num_blocks", "chunk_limit", "drafts", "output_reserve"), 0),
    **dict.fromkeys(("swap_gib", "offload_gib", "remote_gib"), 0),
    **dict.fromkeys(("host_ms", "host_per_request_ms", "host_per_token_ms", "frontend_ms"), 0),
    **dict.fromkeys(("serial_ms", "serial_per_request_ms", "output_ms", "launch_ms"), 0),
    **dict.fromkeys(("warmup_ms", "capture_ms_per_layer", "draft_ms"), 0),
}
