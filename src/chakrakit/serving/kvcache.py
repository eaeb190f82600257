"""The number of blocks of keys and values that fit on a device, from its memory and what else is in it."""

from __future__ import annotations

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.device import Device
from chakrakit.operators import element_bytes
from chakrakit.serving.engine import MOST_COUNT, EngineOptions
from chakrakit.serving.steps import StepOperators

RESERVE_BYTES = 1_400_000_000
"""Context, workspaces, communication buffers and captured graphs. From a published pair of figures for
Llama-3.1-8B with vLLM on an RTX 4090: 41,408 tokens of cache where memory less weights would hold
54,400; the difference of 1.7 GB less the activations counted here. One model on one card."""
LOGIT_BYTES = 4
"""Bytes of a logit: engines sample from fp32."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one device, and the arithmetic in bytes; with `fixed` blocks there is no arithmetic."""

    blocks: int
    block_size: int
    bytes_per_token: int
    fixed: bool = False
    memory: float = 0.0
    share: float = 0.0
    share_of_free: bool = False
    """Whether the share is of what weights leave, not of all memory."""
    weights: float = 0.0
    activations: float = 0.0
    reserve: float = 0.0
    request_tokens: int = 0
    """Tokens of the mean request, over which windows and states are shared out; 0 where there are none."""

    @property
    def tokens(self) -> int:
        """Tokens that all blocks hold."""
        return self.blocks * self.block_size

    def explained(self) -> str:
        """The arithmetic in words, for errors and reports."""
        if self.fixed:
            return f"{self.blocks:,} blocks of {self.block_size} tokens, as given"
        memory, weights = (
            f"{self.memory / 1e9:.1f} GB of memory",
            f"{self.weights / 1e9:.1f} GB of weights",
        )
        used = f"of which {self.share:.0%} may be used"
        first = f"{memory} less {weights}, {used}, less" if self.share_of_free else (
            f"{memory}, {used}, less {weights},"
        )  # fmt: skip
        parts = (
            f"{first} {self.activations / 1e9:.1f} GB of activations and "
            f"{self.reserve / 1e9:.1f} GB of reserves"
        )
        each = f"{self.bytes_per_token:,} bytes"
        if self.request_tokens:
            each += f" (windows and states are shared out over requests of {self.request_tokens:,} tokens)"
        tokens = f"{self.tokens:,} tokens of {each} in blocks of {self.block_size}"
        return f"{parts} is {self.cache_bytes / 1e9:.1f} GB, or {tokens}"

    @property
    def cache_bytes(self) -> float:
        """Bytes for the cache."""
        usable = self.memory * self.share - self.weights
        if self.share_of_free:
            usable = (self.memory - self.weights) * self.share
        return usable - self.activations - self.reserve


def capacity_of(
    engine: EngineOptions,
    operators: StepOperators,
    device: Device,
    kv_blocks: int | None = None,
    request_tokens: int = 1,
) -> Capacity:
    """The cache of one device; a ConfigError if blocks are set twice, or if there is no room.

    What requests keep besides their tokens, windows and states, is shared out over the tokens of a request
    of `request_tokens`.
    """
    if kv_blocks is not None and engine.num_blocks:
        raise ConfigError(
            f"--kv-blocks {kv_blocks} against {engine.num_blocks} blocks of the engine's own option; give one"
        )
    kept = operators.cache_bytes_per_token(request_tokens, engine.cache_dtype)
    longer = operators.cache_bytes_per_token(2 * request_tokens, engine.cache_dtype)
    per_token = max(1, round(kept))
    blocks_set = engine.num_blocks if kv_blocks is None else kv_blocks
    if blocks_set or kv_blocks is not None:
        if not 1 <= blocks_set <= MOST_COUNT:
            raise ConfigError(f"--kv-blocks {blocks_set}: give 1 to {MOST_COUNT:,}")
        return Capacity(
            blocks=blocks_set, block_size=engine.block_size, bytes_per_token=per_token, fixed=True
        )
    if not device.memory:
        raise ConfigError(
            f"device {device.name!r} has no memory size; add `memory` to the machine or give --kv-blocks"
        )
    capacity = Capacity(
        blocks=0,
        block_size=engine.block_size,
        bytes_per_token=per_token,
        memory=device.memory,
        share=engine.memory_share,
        share_of_free=engine.share_of_free,
        weights=float(operators.weight_bytes),
        activations=activation_bytes(engine, operators),
        reserve=RESERVE_BYTES + engine.content_gib * 2**30,
        request_tokens=request_tokens if longer != kept else 0,
    )
    blocks = int(capacity.cache_bytes // (per_token * engine.block_size))
    if blocks < 1:
        raise ConfigError(
            f"no room for a cache: {capacity.explained()}; use more devices or a larger share of memory"
        )
    return msgspec.structs.replace(capacity, blocks=blocks)


def activation_bytes(engine: EngineOptions, operators: StepOperators) -> float:
    """The largest operator's input and output at a full token budget, and logits of a full batch."""
    each = element_bytes(operators.step.dtype)
    matmuls = [o for o in operators.operators if o.op == "matmul"]
    widest = max(o.rows.tokens * (o.inner + o.outer) for o in matmuls)
    logits = max((o.outer for o in matmuls if o.by_sampled), default=0)
    batch = min(engine.max_requests, engine.token_budget)
    return float(engine.token_budget * widest * each + batch * logits * LOGIT_BYTES)
