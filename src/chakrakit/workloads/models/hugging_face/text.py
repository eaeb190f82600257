"""The layers that a configuration describes, by the shape of what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.operators import dtype_name
from chakrakit.workloads.description import (
    MOST_LAYERS,
    Attention,
    CompressedAttention,
    DeltaNet,
    Experts,
    FeedForward,
    Index,
    LatentAttention,
    Layer,
    Linear,
    Mixer,
    Mlp,
    StateSpace,
)
from chakrakit.workloads.models.hugging_face.keys import EXPERTS, HEAD_DIM, TOP_K, Keys
from chakrakit.workloads.models.hugging_face.traits import Traits

_USUAL = {"qkv_bias": True}
"""Switches that are on where a file does not say."""


class TextReader:
    """Reads the language model of a configuration."""

    def __init__(self, keys: Keys, kind: str, traits: Traits) -> None:
        self.keys, self.kind, self.traits = keys, kind, traits
        self.layers = self._layers()
        self.hidden = keys.count("hidden_size")

    def _layers(self) -> int:
        keys = self.keys
        listed = self.block_types() or keys.sequence("block_configs")
        layers = keys.count("num_hidden_layers", default=len(listed) or None)
        if layers > MOST_LAYERS:  # each is looked at
            raise ConfigError(f"{keys.where}: layers is {layers:,}; {MOST_LAYERS:,} is the most")
        return layers

    def _on(self, switch: bool | str) -> bool:
        """A trait that is there, or that a key switches on."""
        if isinstance(switch, str):
            return self.keys.flag(switch, _USUAL.get(switch, False))
        return switch

    def fields(self) -> dict[str, Any]:
        """Everything of a decoder but its layers."""
        keys, traits = self.keys, self.traits
        heads = self.heads
        experts = self.experts
        return {
            "layers": self.layers,
            "hidden": self.hidden,
            "heads": heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab": keys.count("vocab_size"),
            "tied": keys.flag("tie_word_embeddings", traits.tied),
            "norm": traits.norm,
            "norm_weights": traits.norm_weights,
            "head_bias": self._on(traits.head_bias),
            "experts": experts,
            "top_k": self.top_k if experts else 0,
            **self._groups(),
            "streams": keys.count("hc_mult", default=1),
            "mtp_layers": self.mtp_layers,
        }

    def _groups(self) -> dict[str, int]:
        """The groups of experts that a token is limited to, where it is."""
        keys = self.keys
        groups, kept = (keys.count(name, default=0) for name in ("n_group", "topk_group"))
        limited = self.experts and 0 < kept < groups and keys.get("topk_method") != "greedy"
        return {"expert_groups": groups, "top_groups": kept} if limited else {}

    @property
    def mtp_layers(self) -> int:
        """Layers that predict further tokens."""
        keys = self.keys
        keys.skip("use_mtp")
        names = ("num_mtp_modules", "mtp_num_hidden_layers", "num_nextn_predict_layers")
        counts = [keys.count(n, default=0) for n in names]
        return next((n for n in counts if n), 0)

    @property
    def heads(self) -> int:
        """Heads of attention, or of the states of a model without attention."""
        return self.keys.count(
            "mamba_num_heads" if self.traits.recurrent else "num_attention_heads"
        )

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values; ChatGLM names a number that counts only where a switch is on."""
        shared = self.keys.count("num_key_value_heads", default=0)
        if self.kind == "chatglm" and not self.keys.flag("multi_query_attention"):
            return self.heads
        return shared or self.heads

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        size = self.keys.count(*HEAD_DIM, default=0)
        return size or self.hidden // max(self.heads, 1)

    @property
    def experts(self) -> int:
        """Experts of a layer that has some."""
        keys = self.keys
        keys.skip("enable_moe_block", "num_experts_per_layer")
        if keys.get("enable_moe_block") is False:
            return 0
        return keys.count(*EXPERTS, default=0)

    @property
    def top_k(self) -> int:
        """Experts that a token meets."""
        listed = next((n for n in TOP_K if isinstance(self.keys.get(n), list)), None)
        if listed:
            return max(self.keys.counts(listed), default=0)
        return self.keys.count(*TOP_K)

    # --- layer by layer -------------------------------------------------------------------------

    def rows(self) -> list[Layer]:
        """The layers in order."""
        keys = self.keys
        self._refuse_other_parts()
        if keys.sequence("block_configs"):
            return [self._pruned(block) for block in keys.sequence("block_configs")]
        if self.traits.recurrent:
            return [Layer(mixer=self._state_space())] * self.layers
        if types := self.block_types():
            return [self._single(word) for word in types]
        mixers, ffns = self._mixers(), self._ffns()
        norms = self.traits.norms
        return [Layer(mixer=m, ffn=f, norms=norms) for m, f in zip(mixers, ffns, strict=True)]

    def _refuse_other_parts(self) -> None:
        """Parts that some files of these families have and that are not built in."""
        keys = self.keys
        keys.skip("vocab_size_per_layer_input", "intermediate_size", "full_attention_interval")
        for name in ("hidden_size_per_layer_input", "num_kv_shared_layers", "num_nextn_embeddings"):
            if keys.count(name, default=0):
                raise keys.foreign(name, keys.get(name), "0; such a part is not built in")
        if keys.flag("attention_output_gate"):
            raise keys.foreign("attention_output_gate", True, "false; such a gate is not built in")
        if any(kind != 1 for kind in keys.counts("attn_type_list")):
            raise keys.foreign(
                "attn_type_list", 0, "1 throughout; lightning attention is not built in"
            )

    def block_types(self) -> list[str]:
        """Layers of one part each, as hybrid models list them."""
        letters = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
        pattern = self.keys.word("hybrid_override_pattern")
        listed = self.keys.words("layers_block_type")
        for letter in pattern:
            if letter not in letters:
                raise self.keys.wrong("hybrid_override_pattern", pattern, "made of M, E, * and -")
        return listed or [letters[letter] for letter in pattern]

    def _single(self, word: str) -> Layer:
        parts: dict[str, Callable[[], Layer]] = {
            "mamba": lambda: Layer(mixer=self._state_space()),
            "linear_attention": lambda: Layer(mixer=self._state_space()),
            "attention": lambda: Layer(mixer=self._attention()),
            "full_attention": lambda: Layer(mixer=self._attention()),
            "moe": lambda: Layer(ffn=self._experts()),
            "mlp": lambda: Layer(ffn=self._mlp(self.keys.count("intermediate_size"))),
        }
        if word not in parts:
            raise self.keys.wrong("layers_block_type", word, f"one of {', '.join(parts)}")
        return parts[word]()

    def _mixers(self) -> list[Mixer]:
        keys = self.keys
        if keys.count("kv_lora_rank", default=0):
            return [self._latent(i) for i in range(self.layers)]
        if keys.count("o_lora_rank", default=0):
            return [self._compressed(ratio) for ratio in self._ratios()]
        if keys.counts("hybrid_layer_pattern"):
            return [self._windowed_apart(bool(w)) for w in self._listed("hybrid_layer_pattern")]
        if self.kind == "mimo_v2_flash":
            raise keys.foreign("hybrid_layer_pattern", None, "0 or 1 for every layer")
        return [self._typed(i, word) for i, word in enumerate(self._types())]

    def _listed(self, name: str) -> list[int]:
        """Whole numbers for every layer, of which there may be more for layers that predict ahead."""
        counts = self.keys.counts(name)
        if len(counts) < self.layers:
            raise ConfigError(
                f"{self.keys.where}: {name} has {len(counts)} entries for {self.layers} layers"
            )
        return counts[: self.layers]

    def _types(self) -> list[str]:
        """The type of attention of every layer, as the file lists them or as the family has them."""
        keys = self.keys
        keys.skip("sliding_window_pattern", "max_window_layers", "use_sliding_window", "no_rope_layers",
                  "no_rope_layer_interval", "global_attn_every_n_layers")  # fmt: skip
        if listed := keys.words("layer_types"):
            if len(listed) < self.layers:
                raise ConfigError(
                    f"{keys.where}: layer_types has {len(listed)} entries for {self.layers} layers"
                )
            return listed[: self.layers]
        if every := keys.count("full_attention_interval", default=0):
            linear = keys.count("linear_num_value_heads", default=0) > 0
            other = "linear_attention" if linear else "sliding_attention"
            return [_every(i, every, other) for i in range(self.layers)]
        if self.keys.count("attention_chunk_size", default=0) and self.kind == "llama4_text":
            return self._chunked()
        return [self._usual(i) for i in range(self.layers)]

    def _chunked(self) -> list[str]:
        """Layers with rotary positions attend within chunks; those without attend to all."""
        listed = self.keys.counts("no_rope_layers")
        every = self.keys.count("no_rope_layer_interval", default=4)
        rotary = listed or [int((i + 1) % every != 0) for i in range(self.layers)]
        return ["chunked_attention" if r else "full_attention" for r in rotary[: self.layers]]

    def _usual(self, layer: int) -> str:
        if not self.keys.count("sliding_window", default=0):
            return "full_attention"
        match self.traits.windows:
            case "all":
                return "sliding_attention"
            case "even":
                return "full_attention" if layer % 2 else "sliding_attention"
            case "pattern":
                every = self.keys.count("sliding_window_pattern", default=6)
                return _every(layer, every, "sliding_attention")
            case "switch" if self.keys.flag("use_sliding_window"):
                full = self.keys.count("max_window_layers", default=0)
                return "sliding_attention" if layer >= full else "full_attention"
        return "full_attention"

    def _typed(self, layer: int, word: str) -> Mixer:
        keys = self.keys
        match word:
            case "full_attention" | "attention" | "minimax_m3_sparse":
                return self._attention(layer, full=True)
            case "sliding_attention":
                window = keys.count("sliding_window")
                return self._attention(layer).replace(window=window)  # type: ignore[no-any-return]
            case "chunked_attention":
                chunk = keys.count("attention_chunk_size")
                return self._attention(layer).replace(chunk=chunk)  # type: ignore[no-any-return]
            case "linear_attention" if keys.count("linear_num_value_heads", default=0):
                return self._delta_net()
        known = "full_attention, sliding_attention, chunked_attention or linear_attention"
        raise keys.foreign("layer_types", word, f"{known} with the sizes that it needs")

    def _attention(self, layer: int = 0, full: bool = False) -> Attention:
        keys, traits = self.keys, self.traits
        heads = keys.count("num_attention_heads")
        keys.skip(
            "use_qk_norm", "qk_norm_type", "qk_norm", "attn_output_gate", "attention_output_gate"
        )
        attention = Attention(
            heads=heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            norm=traits.qk_norm if self._norms_heads() else "",
            gate=traits.gate and keys.flag("attn_output_gate", True),
            sinks=traits.sinks,
            bias=self._on(traits.qkv_bias),
            out_bias=self._on(traits.out_bias),
            index=self._block_index(layer),
        )
        keys.skip("global_head_dim", "num_global_key_value_heads", "attention_k_eq_v")
        return self._global(attention) if full else attention

    def _norms_heads(self) -> bool:
        key = self.traits.qk_norm_key
        return self.keys.flag(key) if key else True

    def _global(self, attention: Attention) -> Attention:
        """Layers that see everything, where they have sizes of their own (Gemma 4)."""
        keys = self.keys
        size = keys.count("global_head_dim", default=0)
        if not size:
            return attention
        same = keys.flag("attention_k_eq_v")
        few = keys.count("num_global_key_value_heads", default=0)
        heads = few if same and few else attention.kv_heads
        changed = {"head_dim": size, "kv_heads": heads, "keys_are_values": same}
        return attention.replace(**changed)  # type: ignore[no-any-return]

    def _block_index(self, layer: int) -> Index | None:
        """Sparse attention by blocks of keys (MiniMax-M3)."""
        if blocks := self.keys.count("index_topk_blocks", default=0):
            return self._listed_index(layer, blocks)
        sparse = self.keys.part("sparse_attention_config")
        if sparse is None or not sparse.flag("use_sparse_attention"):
            return None
        frequency = sparse.counts("sparse_attention_freq")
        if frequency and not (layer < len(frequency) and frequency[layer]):
            return None
        return Index(
            heads=sparse.count("sparse_num_index_heads"),
            dim=sparse.count("sparse_index_dim"),
            most=sparse.count("sparse_topk_blocks") * sparse.count("sparse_block_size"),
            weights=False,
            norm="both",
        )

    def _listed_index(self, layer: int, blocks: int) -> Index | None:
        """The same where `layer_types` says which layers are sparse."""
        keys = self.keys
        keys.skip("index_n_heads", "index_head_dim", "index_block_size", "index_local_blocks")
        words = keys.words("layer_types")
        if not (layer < len(words) and words[layer] == "minimax_m3_sparse"):
            return None
        size = blocks * keys.count("index_block_size")
        heads, dim = keys.count("index_n_heads"), keys.count("index_head_dim")
        return Index(heads=heads, dim=dim, most=size, weights=False, norm="both")

    def _latent(self, layer: int) -> LatentAttention:
        keys = self.keys
        keys.skip("head_dim", "qk_head_dim", "num_key_value_heads")
        for word in keys.words("layer_types"):
            if word not in ("indexed_attention", "full_attention"):
                raise keys.wrong("layer_types", word, "indexed_attention or full_attention")
        most = keys.count("index_topk", default=0)
        # DeepSeek's inference/model.py of V3.2 (class Indexer) and vLLM's (DeepseekV32IndexerCache) quantize
        # queries and keys to float8_e4m3fn and keep the keys so, with a scale of four bytes for each 128.
        index = Index(
            heads=keys.count("index_n_heads"), dim=keys.count("index_head_dim"), most=most, dtype="fp8"
        ) if most else None  # fmt: skip
        if keys.words("indexer_types"):
            kinds = keys.words("indexer_types")
            if index and layer < len(kinds) and kinds[layer] != "full":
                raise keys.foreign(
                    "indexer_types", kinds[layer], "full; shared indices are not built in"
                )
        return LatentAttention(
            heads=keys.count("num_attention_heads"),
            q_lora=keys.count("q_lora_rank", default=0),
            kv_lora=keys.count("kv_lora_rank"),
            rope_dim=keys.count("qk_rope_head_dim"),
            nope_dim=keys.count("qk_nope_head_dim"),
            value_dim=keys.count("v_head_dim"),
            bias=keys.flag("attention_bias"),
            index=index,
        )

    def _ratios(self) -> list[int]:
        """Tokens that a layer compresses into one, 0 where it has a window alone."""
        keys = self.keys
        keys.skip("num_hash_layers", "hc_sinkhorn_iters", "mlp_layer_types", "num_key_value_heads")
        rates = keys.part("compress_rates")
        names = {
            "sliding_attention": 0,
            "compressed_sparse_attention": rates.count("compressed_sparse_attention")
            if rates
            else 4,
            "heavily_compressed_attention": (
                rates.count("heavily_compressed_attention") if rates else 128
            ),
        }
        if words := keys.words("layer_types"):
            unknown = [w for w in words if w not in names]
            if unknown:
                raise keys.wrong("layer_types", unknown[0], f"one of {', '.join(names)}")
            return [names[w] for w in words][: self.layers]
        return self._listed("compress_ratios")

    def _compressed(self, ratio: int) -> CompressedAttention:
        keys = self.keys
        sparse = 0 < ratio < 128  # the finely compressed layers choose among their entries
        index = Index(
            heads=keys.count("index_n_heads"),
            dim=keys.count("index_head_dim"),
            most=keys.count("index_topk"),
        ) if sparse else None  # fmt: skip
        self._check_head_parts()
        return CompressedAttention(
            heads=keys.count("num_attention_heads"),
            head_dim=self.head_dim,
            q_lora=keys.count("q_lora_rank"),
            window=keys.count("sliding_window"),
            ratio=ratio,
            overlap=sparse,
            groups=keys.count("o_groups"),
            out_lora=keys.count("o_lora_rank"),
            index=index,
        )

    def _check_head_parts(self) -> None:
        """A head is what has positions and what has none, where a file states both."""
        rotary = self.keys.count("qk_rope_head_dim", default=0)
        rest = self.head_dim - rotary
        if self.keys.count("qk_nope_head_dim", default=rest) != rest:
            nope = self.keys.get("qk_nope_head_dim")
            raise self.keys.wrong("qk_nope_head_dim", nope, f"{rest}, head_dim less rotary")

    def _windowed_apart(self, windowed: bool) -> Attention:
        """Windowed layers with heads of their own (MiMo-V2)."""
        keys = self.keys
        before = "swa_" if windowed else ""
        keys.skip("sliding_window_size", "attention_chunk_size", "swa_num_attention_heads",
                  "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
                  "add_swa_attention_sink_bias", "add_full_attention_sink_bias", "v_head_dim")  # fmt: skip
        sinks = "add_swa_attention_sink_bias" if windowed else "add_full_attention_sink_bias"
        return Attention(
            heads=keys.count(f"{before}num_attention_heads", "num_attention_heads"),
            kv_heads=keys.count(f"{before}num_key_value_heads", "num_key_value_heads"),
            head_dim=keys.count(f"{before}head_dim", "head_dim"),
            value_dim=keys.count(f"{before}v_head_dim", "v_head_dim", "head_dim"),
            window=keys.count("sliding_window", "sliding_window_size") if windowed else 0,
            sinks=keys.flag(sinks),
            bias=self._on(self.traits.qkv_bias),
            out_bias=self._on(self.traits.out_bias),
        )

    def _delta_net(self) -> DeltaNet:
        keys = self.keys
        keys.skip("mamba_ssm_dtype")
        return DeltaNet(
            key_heads=keys.count("linear_num_key_heads"),
            value_heads=keys.count("linear_num_value_heads"),
            key_dim=keys.count("linear_key_head_dim"),
            value_dim=keys.count("linear_value_head_dim"),
            kernel=keys.count("linear_conv_kernel_dim", default=4),
        )

    def _state_space(self) -> StateSpace:
        keys = self.keys
        keys.skip(
            "expand", "mamba_hidden_act", "mtp_layers_block_type", "norm_before_gate", "rms_norm"
        )
        return StateSpace(
            heads=keys.count("mamba_num_heads"),
            head_dim=keys.count("mamba_head_dim"),
            groups=keys.count("n_groups"),
            state=keys.count("ssm_state_size"),
            kernel=keys.count("conv_kernel", default=4),
            bias=keys.flag("use_bias") or keys.flag("mamba_proj_bias"),
            kernel_bias=keys.flag("use_conv_bias", True),
            state_dtype=dtype_name(keys.word("mamba_ssm_cache_dtype")),
        )

    def _pruned(self, block: Any) -> Layer:
        """A layer whose parts were replaced, narrowed or left out (nemotron-nas)."""
        config = Keys({"block": block}, self.keys.where).part("block")
        attention, ffn = (config.part(n) if config else None for n in ("attention", "ffn"))
        if attention is None or ffn is None:
            raise self.keys.wrong("block_configs", block, "attention and ffn of every layer")
        return Layer(mixer=self._pruned_mixer(attention), ffn=self._pruned_mlp(ffn))

    def _pruned_mixer(self, block: Keys) -> Mixer | None:
        if block.flag("no_op"):
            return None
        if block.flag("replace_with_linear"):
            return Linear()
        heads = self.keys.count("num_attention_heads")
        return Attention(
            heads=heads,
            kv_heads=heads // max(block.count("n_heads_in_group"), 1),
            head_dim=self.head_dim,
            window=block.count("window_length", default=0),
            bias=self._on(self.traits.qkv_bias),
            out_bias=self._on(self.traits.out_bias),
        )

    def _pruned_mlp(self, block: Keys) -> FeedForward | None:
        if block.flag("no_op"):
            return None
        if block.flag("replace_with_linear"):
            raise block.foreign(
                "replace_with_linear", True, "false in an ffn; such a part is not built in"
            )
        times = block.get("ffn_mult")
        if times is None:
            return self._mlp(block.count("intermediate_size"))
        if not isinstance(times, int | float) or not 0 < times < 1024:
            raise block.wrong("ffn_mult", times, "a number above 0")
        return self._mlp(_up_to(int(2 * times * self.hidden / 3), 256))

    # --- feed-forward ---------------------------------------------------------------------------

    def _ffns(self) -> list[FeedForward]:
        routed = self._routed_layers() if self.experts else [False] * self.layers
        width = self._dense_width()
        dense = self._mlp(width) if not all(routed) else None
        return [self._experts() if r else dense for r in routed]  # type: ignore[misc]

    def _dense_width(self) -> int:
        """Width of the MLP of layers without experts; several keys say it, the most special first."""
        names = (
            "intermediate_size_mlp",
            "dense_intermediate_size",
            "intermediate_size",
            "ffn_hidden_size",
        )
        return self.keys.count(*names, default=0 if self.experts else None)

    def _mlp(self, width: int) -> Mlp:
        return Mlp(width=width, gated=self.traits.gated, bias=self._on(self.traits.mlp_bias))

    def _routed_layers(self) -> list[bool]:
        """Which layers have experts."""
        keys, layers = self.keys, range(self.layers)
        frequency = keys.get("moe_layer_freq", keys.get("mlp_layer_types"))
        keys.skip("moe_layer_freq", "mlp_layer_types")
        if isinstance(frequency, list):
            words = {
                0: False,
                1: True,
                "dense": False,
                "sparse": True,
                "moe": True,
                "hash_moe": True,
            }
            if len(frequency) < self.layers or any(f not in words for f in frequency):
                raise keys.wrong("moe_layer_freq", frequency, "0 or 1 for every layer")
            return [words[f] for f in frequency[: self.layers]]
        first = keys.count("first_k_dense_replace", "moe_layer_start_index", default=0)
        if first > self.layers:
            wanted = f"at most {self.layers:,}, the number of layers"
            raise keys.wrong("first_k_dense_replace", first, wanted)
        every = keys.count("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step",
                           "moe_layer_interval", default=1) or 1  # fmt: skip
        listed = keys.counts("moe_layers")
        if listed:
            return [i in listed for i in layers]
        only = set(keys.counts("mlp_only_layers"))
        keys.skip("num_dense_layers", "moe_layer_end_index")
        last = keys.count("moe_layer_end_index", default=self.layers) % (1 << 30)
        if "first_k_dense_replace" in keys.content:
            return [i >= first and i % every == 0 for i in layers]
        return [i not in only and first <= i <= last and (i + 1) % every == 0 for i in layers]

    def _experts(self) -> Experts:
        keys, traits = self.keys, self.traits
        width = keys.count("moe_intermediate_size", "expert_intermediate_size", default=0)
        width = width or keys.count("intermediate_size")
        return Experts(
            width=width,
            gated=traits.experts_gated,
            bias=traits.experts_bias,
            shared=self._shared_width(width),
            shared_gate=traits.shared_gate,
            latent=keys.count("moe_latent_size", default=0),
            beside=keys.count("intermediate_size") if self.kind == "gemma4_text" else 0,
            router_bias=traits.router_bias,
            router_scales=self.kind == "gemma4_text",
        )

    def _shared_width(self, width: int) -> int:
        """Width of all shared experts together; 0 says that there are none."""
        keys = self.keys
        names = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                 "shared_intermediate_size")  # fmt: skip
        count = keys.count("n_shared_experts", "num_shared_experts", "num_shared_expert",
                           "moe_num_shared_experts", default=0)  # fmt: skip
        for name in names:
            if keys.get(name) is not None:
                return keys.count(name)
        if self.kind == "llama4_text":
            return keys.count("intermediate_size")
        return count * width


def _every(layer: int, every: int, other: str) -> str:
    return "full_attention" if (layer + 1) % every == 0 else other


def _up_to(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
