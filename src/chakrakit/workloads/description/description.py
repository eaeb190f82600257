"""What a workload is: a model, a parallel plan and a step. Typed, from Python or YAML.

A description says what is wanted; `feasibility.py` decides whether it can be built. The string below a
field is also its line in `chakra generate --help`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from chakrakit.operators import WorkingType
from chakrakit.workloads.description.decoder_layers import Layer
from chakrakit.workloads.description.parts import Part
from chakrakit.workloads.description.precision import Precision


class Tower(Part, frozen=True, kw_only=True):
    """A vision tower and what projects its result to tokens."""

    layers: int
    hidden: int
    parameters: int
    """Of the tower and of the projector."""


class Decoder(Part, frozen=True, kw_only=True, tag="decoder", tag_field="family"):
    """A transformer over tokens: GPT, Llama, Mixtral, DeepSeek and their kind.

    `head_dim`, `kv_heads` and `ffn` have the usual defaults (hidden / heads, heads, 4 × hidden).
    `kernel` is how attention runs: `flash` computes half the square when causal and keeps no scores;
    `unfused` computes the whole square and keeps scores, as separate matmuls do.
    """

    name: str = "decoder"
    """The model's name in files and reports."""
    layers: int
    """Number of layers."""
    hidden: int
    """Width of the residual stream."""
    heads: int
    """Number of attention heads."""
    vocab: int
    """Number of tokens in the vocabulary."""
    kv_heads: int | None = None
    """Number of heads of keys and values; by default as many as heads."""
    head_dim: int | None = None
    """Width of one head; by default hidden / heads."""
    ffn: int | None = None
    """Width of the MLP; by default 4 × hidden."""
    norm: Literal["rms", "layer"] = "rms"
    """RMS or layer normalisation."""
    activation: Literal["swiglu", "gelu"] = "swiglu"
    """SwiGLU (three matmuls per MLP) or GELU (two)."""
    bias: bool = False
    """Whether linear layers have a bias."""
    qkv_bias: bool = False
    """Whether the projections to q, k and v have a bias even where the other layers have none."""
    qk_norm: bool = False
    """Whether queries and keys are normalised."""
    fused: bool = True
    """Whether q, k and v (and gate and up) are one matmul each."""
    tied: bool = False
    """Whether the output head is the embedding's own table."""
    positions: int = 0
    """Rows of a learned position table; 0 for rotary positions."""
    dropout: bool = False
    """Whether embedding, attention and MLP have dropout."""
    causal: bool = True
    """Whether a token attends only to itself and earlier tokens."""
    kernel: Literal["flash", "unfused"] = "flash"
    """Attention as one kernel that keeps no scores (flash), or as separate matmuls that keep them."""
    experts: int = 0
    """Experts per layer; 0 for an ordinary MLP."""
    top_k: int = 0
    """Experts that process each token."""
    expert_groups: int = 0
    """Equal parts of the experts, in order; a token's experts are of its best `top_groups`. 0: no limit."""
    top_groups: int = 0
    """Groups of experts that a token may go to; 0 for all."""
    expert_ffn: int | None = None
    """Width of one expert; by default ffn."""
    shared_experts: int = 0
    """Experts that process every token."""
    shared_ffn: int | None = None
    """Width of all shared experts together; by default shared_experts × expert_ffn."""
    dense_layers: int = 0
    """The first layers that have an ordinary MLP instead of experts."""
    router_bias: bool = False
    """Whether the router has a bias."""
    q_lora: int = 0
    """Latent attention: compressed size of the queries; 0 if they are not compressed."""
    kv_lora: int = 0
    """Latent attention (MLA) where not 0: the compressed size that is cached."""
    rope_dim: int = 0
    """Latent attention: the part of a head that has rotary positions."""
    nope_dim: int = 0
    """Latent attention: the part of a head that has no positions."""
    value_dim: int = 0
    """Latent attention: width of a head's values."""
    kinds: dict[str, Layer] = msgspec.field(default_factory=dict)
    """Kinds of layers by name, where layers differ; then fields of single layers do not count."""
    pattern: list[str] = msgspec.field(default_factory=list)
    """The kind of each layer."""
    streams: int = 1
    """Residual streams side by side, which every part of a layer mixes (hyper-connections)."""
    norm_weights: Literal["full", "scale", "none"] = "full"
    """Weights of norms: as usual, layer norms without a bias, or none."""
    head_bias: bool = False
    """Whether the head has a bias."""
    extra: int = 0
    """Parameters outside of layers, embedding and head that a captured model has."""
    mtp_layers: int = 0
    """Layers that predict further tokens, which the files have and which are not counted or run."""
    vision: Tower | None = None
    """The tower that turns images into tokens, which is kept in memory and not run."""
    precision: Precision | None = None
    """The precision that the model's files state, which inference uses."""
    context: int = 0
    """The most tokens of a request with its output, as the model's files state; 0 where they do not."""


class Vision(Part, frozen=True, kw_only=True, tag="vision", tag_field="family"):
    """A vision transformer: patches, a class token, encoder layers, a classifier."""

    name: str = "vision"
    layers: int
    hidden: int
    heads: int
    ffn: int
    image: int = 224
    """Height and width of an image in pixels."""
    patch: int = 16
    channels: int = 3
    """Channels of an input image or latent."""
    classes: int = 1000
    """Number of classes to tell apart."""
    class_token: bool = True
    """Whether a class token is added to the patches."""
    dropout: bool = False
    kernel: Literal["flash", "unfused"] = "flash"

    @property
    def tokens(self) -> int:
        """Patches of one image, and the class token."""
        return (self.image // self.patch) ** 2 + self.class_token


class Diffusion(Part, frozen=True, kw_only=True, tag="diffusion", tag_field="family"):
    """A diffusion transformer over latent images or video (DiT, Wan).

    The latent is frames × height × width × channels, cut into patches. With `text_tokens`, each
    block also attends to text of `text_dim`, which is projected to the hidden size once.
    `modulation` is where the six shift, scale and gate vectors come from: `block` (a projection of
    the conditioning in each block, DiT) or `shared` (one projection, and a bias in each block, Wan).
    """

    name: str = "diffusion"
    layers: int
    hidden: int
    heads: int
    ffn: int
    frames: int = 1
    """Frames of the latent; 1 for an image."""
    height: int = 32
    """Height of the latent."""
    width: int = 32
    """Width of the latent; of a convolutional network, channels of its convolutions."""
    channels: int = 4
    out_channels: int = 8
    """Channels that the model predicts."""
    patch: tuple[int, int, int] = (1, 2, 2)
    text_tokens: int = 0
    """Text tokens that each block attends to; 0 for none."""
    text_dim: int = 0
    """Width of the encoded text."""
    classes: int = 0
    frequencies: int = 256
    """Width of the embedded time step before its projection."""
    modulation: Literal["block", "shared"] = "block"
    """Shift, scale and gate from a projection in each block, or from one projection for all blocks."""
    qk_norm: bool = False
    kernel: Literal["flash", "unfused"] = "flash"

    @property
    def tokens(self) -> int:
        """Patches of one sample."""
        t, h, w = self.patch
        return (self.frames // t) * (self.height // h) * (self.width // w)


class Recommender(Part, frozen=True, kw_only=True, tag="recommender", tag_field="family"):
    """DLRM: embedding tables spread over all ranks, MLPs that every rank has, feature interaction.

    `tables` are the numbers of rows; `pooling` lookups are summed per table and sample.
    """

    name: str = "recommender"
    tables: list[int]
    """Number of rows of each embedding table."""
    dim: int
    """Width of an embedding."""
    dense: int = 13
    """Number of dense input features."""
    bottom: list[int]
    """Widths of the MLP over dense features."""
    top: list[int]
    """Widths of the MLP over interactions."""
    pooling: int = 1
    """Lookups that are summed per table and sample."""
    interaction: Literal["dot", "dcn"] = "dot"
    """Feature interaction by dot products or by cross layers (DCN)."""
    cross_layers: int = 0
    """Number of cross layers, for dcn."""
    cross_rank: int = 0
    """Rank of the cross layers' low-rank products."""


class Convolutional(Part, frozen=True, kw_only=True, tag="convolutional", tag_field="family"):
    """A residual network of 3×3 convolutions of one width on square images, then a classifier."""

    name: str = "convolutional"
    layers: int
    """Convolutions after the first, two per residual block."""
    width: int
    image: int = 32
    channels: int = 3
    classes: int = 10


Model = Decoder | Vision | Diffusion | Recommender | Convolutional


class Plan(Part, frozen=True, kw_only=True):
    """How the work is spread over ranks. World size is tp × cp × dp × pp; ep is nested in dp × cp.

    Where ep is more than dp × cp, it is folded over tp. `data` is what data-parallel ranks keep of the
    model: `ddp` everything, `zero1` a part of the optimizer, `zero2` also of the gradients, `fsdp`
    (= ZeRO-3) also of the parameters, `none` means they do not talk at all. With `shard` < dp × cp, FSDP
    and ZeRO shard within groups of that many and reduce across them (HSDP).
    """

    dp: int = 1
    """Data-parallel replicas."""
    tp: int = 1
    """Tensor parallelism: ranks that share each layer."""
    pp: int = 1
    """Pipeline stages."""
    cp: int = 1
    """Context parallelism: ranks that share each sequence."""
    ep: int = 1
    """Expert parallelism: ranks that share the experts, nested in dp × cp; more than those are folded over
    tp, which then does not cut experts."""
    exchange: Literal["all-to-all", "once", "gather"] = "all-to-all"
    """How tokens reach experts: a copy for each of their experts (all-to-all), one for each rank that has
    some of them (once, as DeepEP and HybridEP do), or every token to every rank (gather, as vLLM does)."""
    exchange_node: int = 0
    """Exchange once: ranks of a node, so that a token crosses to each node once; 0: all are one node."""
    exchange_overlap: bool = False
    """Whether a forward and a backward of two micro-batches compute in turns while the other's tokens travel
    (as Megatron-Core's `overlap_moe_expert_parallel_comm` does), with one more forward ahead."""
    sequence_parallel: bool = True
    """Whether tokens are cut by tp between the tensor-parallel parts; needs tp > 1."""
    sequence_dim: Literal["first", "second"] = "first"
    """The dimension of activations that sequences lie in: the first (Megatron-Core), or the second, after the
    batch (PyTorch's DTensor), so that a kernel copies what tp gathers and what it scatters into order; beside
    products (tp_overlap) nothing is copied."""
    vocab_parallel: bool = True
    """Whether tp cuts the embedding and the head; else both are on every rank."""
    save_gathered: bool = True
    """Whether gathered inputs are kept for backward (more memory) or gathered again (as Megatron does)."""
    shared_reduce: bool = True
    """Whether input gradients of sibling projections are summed before they are reduced over tp."""
    weight_grads: Literal["fused", "separate"] = "fused"
    """Products of weights' gradients add to what earlier micro-batches left and run while tp reduces the
    input's gradient (fused, as Megatron-LM does since 2022), or the reduction comes after them and a kernel
    of its own adds (separate, as autograd and Megatron-LM before 2022 do)."""
    tp_overlap: bool = False
    """Whether gathers and scatters over tp run beside the products that read or make their data (as
    Megatron-Core's `tp_comm_overlap` does), not before and after them."""
    context: Literal["gather", "ring", "ulysses", "blocks"] = "gather"
    """How cp attends: gather keys and values, pass them around a ring, exchange heads (ulysses), or share
    documents out in blocks, whose keys go only to ranks that meet them (blocks)."""
    assignment: Literal["per-document", "whole", "flops", "mixed"] = "mixed"
    """Context blocks: every document over all ranks of cp (per-document), no document cut (whole), blocks
    packed by their work (flops), or whichever of these and of mixtures a search finds best (mixed)."""
    block: int = 1024
    """Context blocks: tokens of a block."""
    key_pairs: float = 0.0
    """Context blocks: query–key pairs that a rank computes while it receives a token's keys and values,
    which the search weighs; 0: balance alone counts."""
    speeds: list[float] = msgspec.field(default_factory=list)
    """Context blocks: how fast each rank of cp is against the others; by default all alike."""
    shares: list[float] = msgspec.field(default_factory=list)
    """Context blocks: the most tokens of each rank of cp, as shares of all, which its memory sets; by
    default a quarter more than an even share."""
    data: Literal["ddp", "zero1", "zero2", "fsdp", "none"] = "ddp"
    """What data-parallel ranks shard: nothing (ddp), the optimizer (zero1), also gradients (zero2),
    also parameters (fsdp); none: they do not communicate."""
    shard: int = 0
    """Ranks over which FSDP or ZeRO shards; by default all of dp × cp, fewer for HSDP."""
    reshard: Literal["always", "never", "default"] = "default"
    """FSDP: free gathered parameters after forward; `default` spares the last unit. What is not freed
    stays until backward, in a pipeline until the last one of the step."""
    units: Literal["layer", "root"] = "layer"
    """FSDP: embedding and head are units like layers, or belong to a root unit that stays gathered."""
    prefetch: int = 1
    """FSDP: units gathered ahead of the one that computes."""
    sync: Literal["auto", "step", "micro_batch"] = "auto"
    """When gradients are reduced; auto: every micro-batch for FSDP and ZeRO-2, once per step for the others.
    What is reduced once a step is kept whole by every rank until the last of several micro-batches."""
    bucket_mb: float = 0
    """Size of a gradient bucket in MiB; by default 25 for ddp, and 4 bytes × max(40M, 1M × dp) elements
    for zero1 and zero2, which over several micro-batches reduces layer by layer and gathers in buckets."""
    schedule: str = "1f1b"
    """gpipe, 1f1b, interleaved, zb-h1, zb-v or dualpipe."""
    chunks: int = 1
    """Model chunks per stage, for the interleaved schedule."""
    split: list[int] = msgspec.field(default_factory=list)
    """Layers of each virtual stage; by default as even as possible, the first ones larger."""
    tasks: list[list[str]] = msgspec.field(default_factory=list, name="cells")
    """A schedule of your own: for each stage its tasks in order, such as F0, B0, F1.1 (micro-batch.chunk)."""
    recompute: Literal["none", "selective", "full", "needed", "operators", "others"] = "none"
    """What backward computes again: nothing, attention (selective), whole layers (full, as Megatron does), of
    these what gradients read (needed, as PyTorch's checkpoints do), or of that all but attention, reductions
    and every other product in 16 bits (operators, as torchtitan's selective checkpoints do), or all but
    products (others, as JAX's `checkpoint_dots` does)."""
    order: str = "tp-cp-dp-pp"
    """Rank order, fastest axis first."""
    strict: bool = True
    """Whether the order of compute is written as control dependencies, or left to the reader."""

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def folds_experts(self) -> bool:
        """Whether expert parallelism takes in the ranks of tp."""
        return self.ep > self.dp * self.cp


class Lengths(Part, frozen=True, kw_only=True):
    """Documents packed into sequences: attention stays within a document."""

    distribution: Literal["fixed", "uniform", "lognormal"] = "fixed"
    """How the lengths of documents are drawn."""
    mean: int = 0
    """Mean document length; 0: one document fills a sequence."""
    sigma: float = 1.0
    """Standard deviation of the logarithm of the lengths, for lognormal."""


class Samples(Part, frozen=True, kw_only=True):
    """Samples of many lengths, and the batcher that makes micro-batches of them.

    A length is in tokens for decoders and in latent frames for diffusion models. Lengths come from
    `step.lengths` (a distribution), from `sizes`, or from a file.
    """

    batcher: Literal["", "fixed", "tokens", "power", "online", "best-fit", "own"] = ""
    """How samples become micro-batches: micro_batch samples in order (fixed), like lengths up to a budget of
    padded tokens (tokens), up to B × S^power ≤ M (power), up to the budget as each replica's own samples
    arrive (online), packed into sequences without padding (best-fit), or as your own program says (own,
    with batcher_file); empty: sequences of seq tokens."""
    batcher_file: str = ""
    """Batcher own: FILE.py:FUNCTION, a generator over samples and limits that yields micro-batches. It runs
    only with --allow-programs."""
    sample_file: str = ""
    """Recorded samples, CSV or JSON lines: length, and where it is known modality and cost."""
    sizes: list[int] = msgspec.field(default_factory=list)
    """Lengths that samples have, each as often as it is listed, instead of a distribution."""
    budget: int = 0
    """The most tokens of a micro-batch, padding included; by default micro_batch × seq."""
    power: float = 1.0
    """Batcher power: the exponent p of B × S^p ≤ M."""
    longest_batch: int = 1
    """Batcher power: how many samples of the longest length reach M."""
    window: int = 256
    """Samples that a batcher looks at together; it knows no lengths beyond them."""
    quotas: list[int] = msgspec.field(default_factory=list)
    """Micro-batches of each data-parallel replica in a step; by default all have as many."""


class Step(Part, frozen=True, kw_only=True):
    """One training step, or a stretch of inference."""

    kind: Literal["train", "forward", "prefill", "decode", "serve"] = "train"
    """A training step, forward passes alone (of any model), or a stretch of a decoder's inference."""
    seq: int = 2048
    """Tokens of a sequence; of a prompt for inference."""
    global_batch: int = 1
    """Sequences in a step over all ranks."""
    micro_batch: int = 1
    """Sequences that one data-parallel rank processes in one pass."""
    dtype: WorkingType = "bf16"
    """Element type of parameters and activations."""
    matmul_dtype: Literal["", "fp8", "fp4"] = ""
    """fp8, fp4: products of layers read and keep their inputs in one byte, or half of one; everything else
    stays in dtype, head and routers of experts among it."""
    narrow_head: bool = False
    """Training: whether the head's products are in matmul_dtype too (Megatron-Core's `fp8_output_proj`)."""
    cache_dtype: Literal["", "bf16", "fp8"] = ""
    """Inference: element type of keys and values in the cache; by default what the model's files say, else
    dtype."""
    dispatch_dtype: Literal["", "fp8"] = ""
    """Element type of tokens sent to experts."""
    grad_dtype: Literal["", WorkingType] = ""
    """Gradients as kept and reduced; by default fp32."""
    optimizer: Literal["adam", "sgd", "none"] = "adam"
    """The optimizer; none leaves it out."""
    clip: bool = True
    """Whether the gradient norm is computed, with its all-reduce."""
    loss_reduce: bool = True
    """Whether the loss is averaged over the data-parallel ranks."""
    lengths: Lengths = Lengths()
    samples: Samples = Samples()
    steps: int = 1
    """Training steps in one trace; 0: as many as the samples of sample_file fill."""
    imbalance: float = 0.0
    """Spread of tokens over experts: 0 is even, else the coefficient of variation (seeded)."""
    seed: int = 0
    """Seed of drawn lengths, requests and loads of experts."""
    new_tokens: int = 128
    """Inference: tokens to generate for each request."""
    cached: int = 0
    """Decode: tokens of each request that are already in the cache; by default seq."""
    concurrency: int = 0
    """Serve: the most requests in a batch; by default all."""
    token_budget: int = 2048
    """Serve: the most tokens that an iteration processes; longer prompts are cut into chunks."""

    @property
    def in_micro_batches(self) -> bool:
        """Whether micro-batches pass through the model, and not requests with a cache."""
        return self.kind in ("train", "forward")


class Disaggregation(Part, frozen=True, kw_only=True):
    """Prefill and decode on ranks of their own: the cache moves from one to the other."""

    prefill: Plan
    decode: Plan


class Workload(Part, frozen=True, kw_only=True):
    """A complete description. `model` may be a name from `chakra models` in YAML."""

    model: Model
    plan: Plan = Plan()
    step: Step = Step()
    disaggregated: Disaggregation | None = None

    @property
    def name(self) -> str:
        """A file name for it."""
        return self.model.name.replace("/", "-").replace(".", "-")
