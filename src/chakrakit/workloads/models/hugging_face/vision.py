"""Parameters of the towers that turn images into tokens, by the shape of what configurations say."""

from __future__ import annotations

from collections.abc import Callable

from chakrakit.workloads.description import Tower
from chakrakit.workloads.models.hugging_face.keys import Keys


def tower_of(config: Keys, model_type: str, hidden: int) -> Tower | None:
    """The vision tower of a model; None where the file describes none.

    A description of another tower stays unread, so that it is named.
    """
    reader = _READERS.get(model_type)
    vision = config.part("vision_config") if reader else None
    config.skip("projection_hidden_size", "merged_hidden_size")  # which follow from other sizes
    return None if reader is None or vision is None else reader(vision, hidden)


def _matrix(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + bias * outputs


def _block(hidden: int, ffn: int, *, bias: bool = True) -> int:
    """Four projections of attention, two matrices of an MLP, two layer norms."""
    attention = 4 * _matrix(hidden, hidden, bias)
    return attention + _matrix(hidden, ffn, bias) + _matrix(ffn, hidden, bias) + 4 * hidden


def _qwen(vision: Keys, _hidden: int) -> Tower:
    """Patches of two frames, learned places, layers, and mergers of 2 × 2 patches (Qwen3-VL, Qwen3.5)."""
    layers, hidden = vision.count("depth"), vision.count("hidden_size")
    ffn, out = vision.count("intermediate_size"), vision.count("out_hidden_size")
    merged = hidden * vision.count("spatial_merge_size", default=2) ** 2
    pixels = vision.count("patch_size") ** 2 * vision.count("in_channels", default=3)
    patch = _matrix(pixels * vision.count("temporal_patch_size", default=2), hidden)
    merger = _matrix(merged, merged) + _matrix(merged, out)
    deep = len(vision.counts("deepstack_visual_indexes"))
    total = patch + vision.count("num_position_embeddings", default=0) * hidden
    total += layers * _block(hidden, ffn)
    total += merger + 2 * hidden + deep * (merger + 2 * merged)
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _gemma4(vision: Keys, text: int) -> Tower:
    """Patches, places along both axes, gated layers with norms around, one projection."""
    layers, hidden = vision.count("num_hidden_layers"), vision.count("hidden_size")
    ffn, size = vision.count("intermediate_size"), vision.count("head_dim")
    wide = vision.count("num_attention_heads") * size
    narrow = vision.count("num_key_value_heads") * size
    attention = 2 * hidden * wide + 2 * hidden * narrow + 2 * size
    layer = attention + 3 * hidden * ffn + 4 * hidden
    patch = 3 * vision.count("patch_size") ** 2 * hidden
    places = 2 * vision.count("position_embedding_size") * hidden
    total = patch + places + layers * layer + hidden * text
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _qwen2(vision: Keys, _hidden: int) -> Tower:
    """Patches of two frames without a bias, layers of two matrices, a merger (Qwen2-VL)."""
    layers, hidden = vision.count("depth"), vision.count("embed_dim")
    out = vision.count("hidden_size")
    times = vision.count("mlp_ratio", default=4)
    merged = hidden * vision.count("spatial_merge_size", default=2) ** 2
    total = _frames(vision) * hidden + layers * _block(hidden, times * hidden)
    total += 2 * hidden + _matrix(merged, merged) + _matrix(merged, out)
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _qwen25(vision: Keys, _hidden: int) -> Tower:
    """The same with gated layers and RMS norms (Qwen2.5-VL)."""
    layers, hidden = vision.count("depth"), vision.count("hidden_size")
    ffn, out = vision.count("intermediate_size"), vision.count("out_hidden_size")
    merged = hidden * vision.count("spatial_merge_size", default=2) ** 2
    layer = (
        4 * _matrix(hidden, hidden) + 2 * _matrix(hidden, ffn) + _matrix(ffn, hidden) + 2 * hidden
    )
    total = _frames(vision) * hidden + layers * layer
    total += hidden + _matrix(merged, merged) + _matrix(merged, out)
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _frames(vision: Keys) -> int:
    """Numbers of one patch over all its frames and colours."""
    frames = vision.count("temporal_patch_size", default=2)
    channels = vision.count("in_channels", "in_chans", default=3)
    return int(vision.count("patch_size") ** 2 * frames * channels)


def _siglip(vision: Keys, text: int) -> Tower:
    """Patches, places, layers, a norm; then a norm and one projection (Gemma 3)."""
    layers, hidden = vision.count("num_hidden_layers"), vision.count("hidden_size")
    patch = vision.count("patch_size")
    places = (vision.count("image_size") // patch) ** 2
    total = _matrix(3 * patch**2, hidden) + places * hidden
    total += layers * _block(hidden, vision.count("intermediate_size")) + 2 * hidden
    if vision.flag("vision_use_head", True):  # a query that attends to all patches, and an MLP
        total += hidden + _block(hidden, vision.count("intermediate_size")) - 2 * hidden
    return Tower(layers=layers, hidden=hidden, parameters=total + hidden + hidden * text)


def _pixtral(vision: Keys, text: int) -> Tower:
    """Patches, a norm, gated layers without biases; a merger of 2 × 2 patches and two projections."""
    layers, hidden = vision.count("num_hidden_layers"), vision.count("hidden_size")
    ffn = vision.count("intermediate_size")
    layer = 4 * hidden * hidden + 3 * hidden * ffn + 2 * hidden
    total = 3 * vision.count("patch_size") ** 2 * hidden + hidden + layers * layer
    total += hidden + 4 * hidden * hidden + hidden * text + text * text
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _llama4(vision: Keys, text: int) -> Tower:
    """Patches, a class token, places, layers, two norms; a shuffle of pixels with an MLP; a projection."""
    layers, hidden = vision.count("num_hidden_layers"), vision.count("hidden_size")
    ffn, patch = vision.count("intermediate_size"), vision.count("patch_size")
    places = (vision.count("image_size") // patch) ** 2 + 1
    inner, out = vision.count("projector_input_dim"), vision.count("projector_output_dim")
    wide = vision.count("vision_output_dim", default=out)
    total = 3 * patch**2 * hidden + hidden + places * hidden + 4 * hidden
    total += layers * _block(hidden, ffn)
    total += ffn * inner + inner * out + wide * text
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _moon(vision: Keys, text: int) -> Tower:
    """Patches, a table of places, layers, a merger of patches (Kimi)."""
    layers = vision.count("vt_num_hidden_layers", "num_hidden_layers")
    hidden = vision.count("vt_hidden_size", "hidden_size")
    ffn = vision.count("vt_intermediate_size", "intermediate_size")
    rows, columns = (vision.counts("merge_kernel_size") or [2, 2])[:2]
    merged = hidden * rows * columns
    height = vision.count("init_pos_emb_height", "pos_emb_height")
    places = height * vision.count("init_pos_emb_width", "pos_emb_width") * hidden
    total = _matrix(3 * vision.count("patch_size") ** 2, hidden) + places + 2 * hidden
    total += layers * _block(hidden, ffn)
    total += 2 * hidden + _matrix(merged, merged) + _matrix(merged, text)
    return Tower(layers=layers, hidden=hidden, parameters=total)


def _minimax(vision: Keys, text: int) -> Tower:
    """Patches of two frames, a norm, layers, a projector and a merger of patches (MiniMax-M3)."""
    layers, hidden = vision.count("num_hidden_layers"), vision.count("hidden_size")
    merging = vision.part("img_token_compression_config")
    frames = (merging or vision).count("temporal_patch_size", default=2)
    side = (merging or vision).count("spatial_merge_size", default=2)
    pixels = vision.count("num_channels", default=3) * vision.count("patch_size") ** 2 * frames
    total = (
        pixels * hidden + 2 * hidden + layers * _block(hidden, vision.count("intermediate_size"))
    )
    total += _matrix(hidden, text) + _matrix(text, text)
    total += _matrix(text * side**2, text) + _matrix(text, text)
    return Tower(layers=layers, hidden=hidden, parameters=total)


_READERS: dict[str, Callable[[Keys, int], Tower]] = {
    "qwen3_vl": _qwen,
    "qwen3_vl_moe": _qwen,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen,
    "qwen2_vl": _qwen2,
    "qwen2_5_vl": _qwen25,
    "gemma3": _siglip,
    "gemma4": _gemma4,
    "mistral3": _pixtral,
    "llama4": _llama4,
    "kimi_k25": _moon,
    "minimax_m3_vl": _minimax,
}
