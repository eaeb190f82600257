"""The layers of a decoder whose layers differ: what mixes tokens, and what each token goes through.

A `Layer` is a mixer (attention of some kind, a recurrence, or none) and a feed-forward part (an MLP,
experts, or none), each behind a norm and beside a residual.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from chakrakit.workloads.description.parts import Part


class Index(Part, frozen=True, kw_only=True):
    """Small queries and keys that choose which keys the attention proper meets (sparse attention)."""

    heads: int
    """Heads of the small queries; keys have one."""
    dim: int
    """Width of a head."""
    most: int
    """Keys that a query meets at most."""
    weights: bool = True
    """Whether a projection of the hidden state weighs the heads."""
    norm: Literal["layer", "both"] = "layer"
    """A layer norm of the keys, or RMS norms of queries and keys."""
    dtype: Literal["", "fp8"] = ""
    """In which inference multiplies queries and keys and keeps the keys; empty: as the layer's own."""


class Attention(Part, frozen=True, kw_only=True, tag="attention", tag_field="kind"):
    """Grouped-query attention. Without a window or an index a query meets every earlier key."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0
    """Width of a head's values; 0: as wide as its keys."""
    window: int = 0
    """The most recent keys that a query meets; 0 for all."""
    chunk: int = 0
    """Tokens are cut into chunks of so many, and attend within their own; 0: they are not."""
    norm: Literal["", "heads", "width"] = ""
    """Queries and keys are normalised: not at all, head by head, or over all heads together."""
    gate: bool = False
    """Whether the result is gated by a second half of the query projection."""
    sinks: bool = False
    """Whether every head has a learned score that takes part in the softmax."""
    keys_are_values: bool = False
    """Whether values are made from the keys' projection."""
    own_keys: bool = True
    """Whether the layer has keys and values; else it uses those of an earlier layer."""
    bias: bool = False
    """Whether the projections to q, k and v have a bias."""
    out_bias: bool = False
    index: Index | None = None


class LatentAttention(Part, frozen=True, kw_only=True, tag="latent", tag_field="kind"):
    """MLA: queries, keys and values are made from small latent vectors; the keys' one is cached."""

    heads: int
    q_lora: int = 0
    kv_lora: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    bias: bool = False
    """Whether the projections to the latents and back to the hidden size have a bias."""
    index: Index | None = None


class CompressedAttention(Part, frozen=True, kw_only=True, tag="compressed", tag_field="kind"):
    """Attention over a window and over every `ratio` earlier tokens compressed into one (DeepSeek-V4).

    One head of keys serves as values too. The result goes back to the hidden size through `groups`
    projections to `out_lora` each.
    """

    heads: int
    head_dim: int
    q_lora: int
    window: int
    ratio: int = 0
    """Tokens that are compressed into one entry; 0: the window is all there is."""
    overlap: bool = False
    """Whether entries overlap, so that keys and gates are made twice as wide."""
    groups: int
    out_lora: int
    index: Index | None = None


class DeltaNet(Part, frozen=True, kw_only=True, tag="delta", tag_field="kind"):
    """A gated delta rule (Qwen3-Next): a state of key × value per head, a short convolution before it."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int = 4
    """Tokens that the convolution looks at."""


class StateSpace(Part, frozen=True, kw_only=True, tag="state_space", tag_field="kind"):
    """Mamba-2: a state of head_dim × state per head, a short convolution before it."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int = 4
    bias: bool = False
    """Whether the projections in and out have a bias."""
    kernel_bias: bool = True
    state_dtype: str = ""
    """Element type of the kept state; by default the step's."""


class Linear(Part, frozen=True, kw_only=True, tag="linear", tag_field="kind"):
    """One matrix in the place of attention, as pruned models have it."""


class Matrix(Part, frozen=True, kw_only=True):
    """A matrix of a captured layer, or one for each of its experts."""

    name: str
    inputs: int
    outputs: int
    cut: Literal["", "columns", "rows"] = ""
    """What tensor parallelism cuts: nothing, its outputs, or its inputs."""
    experts: int = 0
    tied: bool = False
    """Whether it is a matrix of a layer before, which is kept once."""


class Recorded(Part, frozen=True, kw_only=True, tag="recorded", tag_field="kind"):
    """A whole layer as a run on the meta device showed it: its matrices, and work and memory besides."""

    matrices: list[Matrix]
    vectors: int = 0
    """All other parameters."""
    flops_per_pair: float = 0.0
    """Work for every pair of a query and a key."""
    flops_per_token: float = 0.0
    """Work for every token besides that of the matrices."""
    cache: int = 0
    """Elements that every further token adds to the cache."""
    fixed: int = 0
    """Elements of the cache that do not grow."""
    window: int = 0
    """The most recent keys that a query meets; 0 for all."""


class Mlp(Part, frozen=True, kw_only=True, tag="mlp", tag_field="kind"):
    """An MLP of two matrices, or of three where it is gated."""

    width: int
    gated: bool = True
    bias: bool = False


class Experts(Part, frozen=True, kw_only=True, tag="experts", tag_field="kind"):
    """Experts, of which the model says how many there are and how many a token meets."""

    width: int
    gated: bool = True
    bias: bool = False
    shared: int = 0
    """Width of the experts that every token meets, together."""
    shared_gate: bool = False
    """Whether the shared experts' result is scaled by a projection to one number."""
    latent: int = 0
    """Size that tokens are projected to for the experts, and back from; 0: they are not."""
    beside: int = 0
    """Width of an MLP that runs beside the experts, with norms of its own (Gemma 4)."""
    router_bias: bool = False
    router_scales: bool = False
    """Whether the router has a scale for its input and one for each expert (Gemma 4)."""
    unfused: bool = False
    """Whether training clamps what goes into the activation, and adds the biases of what experts give, in
    kernels of their own and in 32 bits, as Megatron-Core does outside its fused experts (GPT OSS)."""


Mixer = (
    Attention | LatentAttention | CompressedAttention | DeltaNet | StateSpace | Linear | Recorded
)
FeedForward = Mlp | Experts


class Layer(Part, frozen=True, kw_only=True):
    """One layer. Weights whose names stand in `formats` are kept in that format of the model's precision."""

    mixer: Mixer | None = None
    ffn: FeedForward | None = None
    norms: Literal["before", "around", "after"] = "before"
    """Norms before each of the two parts, before and after, or only after."""
    formats: dict[str, str] = msgspec.field(default_factory=dict)
