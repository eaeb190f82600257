"""The keys of a Hugging Face configuration, read one by one, so that what nobody read can be named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from chakrakit.configuration import as_text, check_depth, read_bounded
from chakrakit.errors import ConfigError
from chakrakit.trace.files import unpacked

MOST = 1 << 40
"""The largest number that a description takes."""
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Names of the number of experts."""
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk")
"""Names of the number of experts that a token meets."""
HEAD_DIM = ("head_dim", "attention_head_dim")
"""Names of the width of a head."""
_SIZES = ("num_hidden_layers", "hidden_size")
"""What a file must say itself: transformers, too, would only guess it. A text inside a file is stored as what
differs from its class, so that there the class decides."""
_HARMLESS = re.compile(
    r"""
     _.* | architectures | model_type | auto_map | torch_dtype | dtype | transformers_version
    | name_or_path | .*token_(id|ids|index|indices) | .*_token | (id2label|label2id|num_labels)
    | .*rope.* | .*rotary.* | .*theta.* | .*position_embedding.*
    | max_(position|seq|sequence|model).* | n_positions | .*_max_position.* | .*_eps(ilon)?$ | eps
    | .*epsilon | .*dropout.* | .*_pdrop | .*drop_?rate.* | initializer.* | .*_init(_.*)? | init_.*
    | .*std$ | use_cache | output_.* | return_.* | pruned_heads | pretraining_tp | tp_size | ep_size
    | seq_aux | .*aux_loss.* | .*_coef | .*z_loss.* | .*jitter.* | .*softcap.* | norm_topk_prob
    | .*scaling.* | scoring_func | score_function | topk_method | n_group | topk_group | .*routing.*
    | n_expert_groups? | num_expert_group | hidden_act(ivation)? | activation(_function)?
    | .*_hidden_act | .*multiplier.* | time_step_.* | chunk_size.* | mamba_chunk_size
    | use_mamba_kernels | rescale_prenorm.* | residual_in_fp32 | num_logits_to_keep | logits_to_keep
    | bos | eos | pad | sep_.* | tokenizer.* | .*_placeholder | .*temperature.* | top_k | top_p
    | typical_p | num_beams? | num_beam_groups | num_return_sequences | (min|max)_length
    | length_penalty | .*_penalty | do_sample | early_stopping | .*ngram_size | bad_words_ids
    | .*suppress.* | forced_.* | prefix | problem_type | task_specific_params | finetuning_task
    | gradient_checkpointing | is_(decoder|encoder_decoder) | add_cross_attention
    | cross_attention_hidden_size | tie_encoder_decoder | remove_invalid_values | .*_scores
    | tf_legacy_loss | torchscript | use_bfloat16 | use_flash.* | attn_implementation
    | experts_implementation | .*_alpha | .*_limit | .*_value_scale | swiglu_.* | use_gemma_norm
    | query_pre_attn_scalar | .*clip.* | mscale.* | use_unified_vision_chunk | vision_feature_.*
    | (image|video)_(size|seq_length|grid_pinpoints|processor.*) | audio_(token|start|end).*
    | vision_(start|end).* | projector_hidden_(act|size) | multimodal_projector_bias
    | process_image_mode | spatial_merge_size | boi_.* | eoi_.* | img_token_compression_config
    | vision_soft_tokens_per_image | num_reward_heads | ignore_index | moe_shared_expert_overlap
    | .*_interleave(d)? | use_bidirectional_attention | standardize | layer_norm_(eps|epsilon)
    | moe_router_.* | router_.* | use_grouped_mm | moe_dropless.* | fuse_.* | reset_.*
    | rms_norm_offset | use_rmsnorm | logit_scale | mtp_.* | expert_(capacity|dtype).*
    | scale_(depth|emb|attn).* | dim_model_base | disable_.* | classifier_.* | summary_.*
    | is_causal | language | tie_.*weights.* | pad_head_dim.* | layernorm_.* | load_balance.*
    | batch_size | moe_normalize_expert_weights | ffn_act_fn
    | moe_capacity | moe_use_aux_free | enable_lm_head_fp32 | anyres_.* | vit_.*
    | num_media_embeds | pool_type | (im|text|video)_(start|end|newline)_id | org_vocab_size
    | class_num | interpolate_factor | is_.*_config | transformers\.js_config | pad_vocab.*
    | .*_in_fp32 | (force|dynamic)_image_size
    """,
    re.VERBOSE,
)
"""Names of keys that change neither shapes nor work nor memory."""
_USUAL_VALUES = {
    "full_attn_mod": 1,
    "norm_type": "rms",
    "rmsnorm": True,
    "post_layer_norm": True,
    "use_mixed_mlp_moe": True,
    "moe_gate": "topk",
}
"""Keys that say nothing new with these values: what the family has anyway."""
_BESIDE = {"cla_share_factor": "use_cla"}
"""Keys that say nothing where another one is off."""
_WEIGHTY = re.compile(
    r"num|count|n_|size|dim|rank|lora|width|head|expert|layer|window|pattern|freq|type|ratio|kernel|state|group"
    r"|block|conv|mamba|ssm|moe|attn|attention|mlp|ffn|hidden|norm|bias|share|sparse|index|compress|stream"
    r"|hyper|depth|vocab|config|quant|interval|gate|sink|latent"
)
"""What names of keys that do have in common."""


class NotBuiltIn(ConfigError):  # noqa: N818 - reads as what it is
    """Something of a model that our own reader does not know; transformers may."""


def read_keys(path: Path, ignored: Collection[str] = ()) -> Keys:
    """A configuration of bounded size and depth; JSON as Python writes it, with Infinity and NaN."""
    where = str(path)
    text = as_text(unpacked(read_bounded(where), where), where)
    try:
        content = json.loads(text, object_hook=_plain)
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{where}{line}: not a config.json: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: not a config.json: Expected `object`, got {content!r:.40}")
    check_depth(content, f"{where}: not a config.json")
    return Keys(content, where, ignored)


def _plain(found: dict[str, Any]) -> Any:
    """Infinity and NaN as transformers 5 writes them, {"__float__": "Infinity"}, as what they are."""
    written = found.get("__float__")
    numbers = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    return numbers[written] if len(found) == 1 and written in numbers else found


class Keys:
    """A configuration, or a part of one; remembers which keys were asked for."""

    def __init__(
        self,
        content: dict[str, Any],
        where: str,
        ignored: Collection[str] = (),
        inside: bool = False,
    ) -> None:
        self.content, self.where, self.ignored, self.inside = content, where, ignored, inside
        self._asked: set[str] = set()

    def rename(self, spelling: Mapping[str, str]) -> None:
        """Gives keys the names that most families have for them; a key that is there stays as it is."""
        for theirs, ours in spelling.items():
            if theirs in self.content and ours not in self.content:
                self.content = {(ours if k == theirs else k): v for k, v in self.content.items()}

    def spread(self, *names: str) -> None:
        """Puts what parts of these names say beside the rest; a key that is there stays as it is."""
        for part in filter(None, map(self.part, names)):
            self.content = part.content | self.content

    def get(self, name: str, default: Any = None) -> Any:
        """What a key says; `null` is as good as nothing."""
        self._asked.add(name)
        value = self.content.get(name)
        return default if value is None else value

    def part(self, name: str) -> Keys | None:
        """A configuration inside this one."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, value, "a mapping")
        return Keys(value, f"{self.where}: {name}", self.ignored, inside=True)

    def parts(self) -> set[str]:
        """Names of the configurations inside this one that say something, that of a precision aside."""
        inside = {
            n for n, v in self.content.items() if n.endswith("_config") and isinstance(v, dict)
        }
        return {n for n in inside if self.content[n]} - {"quantization_config"}

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number from 0 on under the first of these names that has one."""
        self.skip(*names)
        for name in names:
            value = self.get(name)
            if value is not None:
                return self._whole(name, self._same(name, value))
        if default is None:
            problem = ConfigError if names[0] in _SIZES and not self.inside else NotBuiltIn
            raise problem(f"{self.where}: configuration without {names[0]!r}")
        return default

    def _same(self, name: str, value: Any) -> Any:
        """The one entry of a list with an entry for each layer; a list of several is not built in."""
        if not isinstance(value, list) or not value:
            return value
        if any(isinstance(entry, list | dict) for entry in value):
            raise self.wrong(name, value, "a whole number, or one for each layer")
        if any(entry != value[0] for entry in value):
            raise self.foreign(name, value, "the same for all layers")
        return value[0]

    def counts(self, name: str) -> list[int]:
        """A list of whole numbers; empty where there is none."""
        return [self._whole(name, v) for v in self.sequence(name)]

    def words(self, name: str) -> list[str]:
        """A list of texts; empty where there is none."""
        return [self._word(name, v) for v in self.sequence(name)]

    def word(self, name: str, default: str = "") -> str:
        """A text."""
        return self._word(name, self.get(name, default))

    def sequence(self, name: str) -> list[Any]:
        """A list; empty where there is none."""
        value = self.get(name, [])
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Yes or no."""
        value = self.get(name, default)
        if value in (0, 1):
            return bool(value)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise self.wrong(name, value, "true or false")

    def wrong(self, name: str, value: Any, wanted: str) -> ConfigError:
        """An error about a value."""
        return ConfigError(f"{self.where}: {name} is {value!r:.60}; it should be {wanted}")

    def foreign(self, name: str, value: Any, wanted: str) -> NotBuiltIn:
        """The same about a value that is right, of a part that is not built in."""
        return NotBuiltIn(str(self.wrong(name, value, wanted)))

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.wrong(name, value, "a whole number") from None
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if value is False:  # Hunyuan-A13B's n_group: none
            value = 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
            raise self.wrong(name, value, f"a whole number from 0 to {MOST:,}")
        return value

    def _word(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.wrong(name, value, "a text")
        return value

    # --- what nobody asked for ------------------------------------------------------------------

    def skip(self, *names: str) -> None:
        """Counts keys as read that say nothing new."""
        self._asked.update(names)

    def refuse_unread(self, model_type: str, more: re.Pattern[str] | None = None) -> None:
        """A ConfigError that names keys which were not understood and look as if they mattered.

        `more` is what names of keys that matter have in common in this part of a file, beside the usual.
        """
        names = list(self.unread(more))
        if names:
            listed = ", ".join(f"{n} ({self.content[n]!r:.40})" for n in names[:6])
            rest = f" and {len(names) - 6} more" if len(names) > 6 else ""
            raise NotBuiltIn(
                f"{self.where}: {listed}{rest} is not understood in a {model_type} and looks as if it "
                f"mattered; if it does not, say so: --model 'PATH{{ignore={'+'.join(names)}}}'"
            )

    def unread(self, more: re.Pattern[str] | None = None) -> Iterator[str]:
        """Keys that nobody asked for and that look as if they mattered."""
        for name, value in self.content.items():
            known = name in self._asked or name in self.ignored
            if known or _says_nothing(value) or _HARMLESS.fullmatch(name):
                continue
            if _USUAL_VALUES.get(name) == value or self._is_off(name):
                continue
            if _WEIGHTY.search(name) or (more is not None and more.search(name)):
                yield name

    def _is_off(self, name: str) -> bool:
        return name in _BESIDE and not self.content.get(_BESIDE[name])


def _says_nothing(value: Any) -> bool:
    """Whether a value switches nothing on: nothing, no, none, or a fraction."""
    return (
        value in (None, False, 0, "", -1) or value == [] or value == {} or isinstance(value, float)
    )
