"""A decoder from a Hugging Face configuration, with the precision that its files state."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.operators import dtype_name
from chakrakit.workloads.description import Decoder, Experts, Layer, Mlp, Tower
from chakrakit.workloads.models.hugging_face.captured import beside_text, captured
from chakrakit.workloads.models.hugging_face.defaults import fill_in
from chakrakit.workloads.models.hugging_face.keys import MOST, Keys, NotBuiltIn, read_keys
from chakrakit.workloads.models.hugging_face.meta_device import known_to_transformers, type_of_class
from chakrakit.workloads.models.hugging_face.quantization_methods import quantization_of
from chakrakit.workloads.models.hugging_face.quantized import (
    Quantization,
    precision_of,
    with_formats,
)
from chakrakit.workloads.models.hugging_face.text import TextReader
from chakrakit.workloads.models.hugging_face.traits import (
    INSIDE,
    SPELLINGS,
    SPREAD,
    TEXTS,
    TRAITS,
    kind_called,
)
from chakrakit.workloads.models.hugging_face.vision import tower_of


def read_config(path: Path, ignored: Collection[str] = ()) -> Decoder:
    """The model a configuration describes; what is not understood is refused by name."""
    config = read_keys(path, ignored)
    kind = _kind(config)
    text, text_kind = _text(config, kind)
    if text_kind == "gpt2":
        return _gpt2(text, path)
    if text_kind not in TRAITS:
        return _captured(config, text, path)
    try:
        return _built_in(config, text, text_kind, path)
    except NotBuiltIn as refusal:
        if not known_to_transformers(config, text):
            raise
        try:
            return _captured(config, text, path)
        except ConfigError:
            raise refusal from None


def _built_in(config: Keys, text: Keys, text_kind: str, path: Path) -> Decoder:
    """A model of a family that our own reader knows."""
    kind = config.word("model_type")
    _check_architecture(config, kind)
    reader = TextReader(text, text_kind, TRAITS[text_kind])
    rows = reader.rows()
    fields = reader.fields() | _tied(config, text)
    quantization = quantization_of(config, text, _beside(path))
    fields |= _vision(config, kind, fields["hidden"], path)
    fields["precision"] = precision_of(quantization, _dtype(config, text), path.name)
    fields["context"] = _context(text)
    text.refuse_unread(text_kind)
    config.refuse_unread(kind)
    return Decoder(name=_name(path, kind), **fields, **_rows(rows, quantization))


_CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len")
"""Names of the most tokens that a model takes."""


def _context(text: Keys) -> int:
    """The most tokens of a request; 0 where a file states none as a number."""
    stated = (text.get(name) for name in _CONTEXT)
    return next((value for value in stated if type(value) is int and 0 < value <= MOST), 0)


def _captured(config: Keys, text: Keys, path: Path) -> Decoder:
    """A model that is not built in, as transformers builds it."""
    quantization = quantization_of(config, text, _beside(path))  # whose keys are no longer unread
    model = captured(config, path)
    tower = Tower(layers=0, hidden=0, parameters=model.vision) if model.vision else None
    return Decoder(
        name=_name(path, config.word("model_type")),
        layers=len(model.rows),
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        vocab=model.vocab,
        context=_context(text),
        tied=model.tied,
        extra=model.extra,
        norm_weights="none",
        experts=model.experts,
        top_k=model.top_k,
        vision=tower,
        causal=model.causal,
        precision=precision_of(quantization, _dtype(config, text), path.name),
        **_rows(model.rows, quantization),
    )


def _kind(config: Keys) -> str:
    """The type that a file states, or, where nobody knows it, the type of the class that it names."""
    stated = config.word("model_type")
    if stated in TRAITS or stated in INSIDE or stated == "gpt2":
        return stated
    called = (config.words("architectures") or [""])[0]
    kind = kind_called(called) or type_of_class(stated, called)
    if not kind:
        return stated
    config.content = config.content | {"model_type": kind}
    return kind


def _text(config: Keys, kind: str) -> tuple[Keys, str]:
    """The language model's part of a configuration, and its type."""
    part = next((p for name in TEXTS if (p := config.part(name)) is not None), None)
    if part is None:
        config.spread(*SPREAD.get(kind, ()))
        config.rename(SPELLINGS.get(kind, {}))
        fill_in(config, kind)
        return config, kind
    inside = part.word("model_type") or INSIDE.get(kind, kind)
    inside = inside if inside in TRAITS else INSIDE.get(kind, inside)
    repeated = {n for n, v in part.content.items() if config.content.get(n) == v}
    config.skip(*repeated)
    part.rename(SPELLINGS.get(inside, {}))
    fill_in(part, inside)
    return part, inside


def _tied(config: Keys, text: Keys) -> dict[str, Any]:
    """Whether the head is the embedding, where the whole says it for its part."""
    if config is text or "tie_word_embeddings" not in config.content:
        return {}
    return {"tied": config.flag("tie_word_embeddings")}


def _dtype(config: Keys, text: Keys) -> str:
    for keys in (text, config):
        for name in ("dtype", "torch_dtype"):
            if keys.get(name) is not None:
                return dtype_name(keys.word(name))
    return ""


def _vision(config: Keys, kind: str, hidden: int, path: Path) -> dict[str, Any]:
    """The tower of a family that is known, or the parameters of whatever transformers builds beside text."""
    tower = tower_of(config, kind, hidden)
    # Only files with other parts ask transformers, which takes seconds to import.
    if tower is None and config.parts() - {*TEXTS} and known_to_transformers(config):
        beside, tied = beside_text(config, path)
        config.skip(*config.content)
        return {"vision": Tower(layers=0, hidden=0, parameters=beside), "tied": tied}
    return {} if tower is None else {"vision": tower}


def _beside(path: Path) -> Keys | None:
    """The file that states a precision beside the configuration, packed or not."""
    name = path.name.removesuffix(".gz")
    if not name.endswith("config.json"):
        return None
    other = f"{name.removesuffix('config.json')}hf_quant_config.json"
    files = (path.with_name(other), path.with_name(f"{other}.gz"))
    return next((read_keys(f) for f in files if f.is_file()), None)


def _name(path: Path, kind: str) -> str:
    name = path.name.removesuffix(".gz").removesuffix("config.json").rstrip("_-.")
    return name or path.parent.name or kind


def _check_architecture(config: Keys, kind: str) -> None:
    """A file that calls itself two things is refused where they differ in more than their names."""
    words = config.words("architectures")
    if not words:
        return
    called = kind_called(words[0])
    if called and kind in TRAITS and TRAITS[called] != TRAITS[kind]:
        raise ConfigError(
            f"{config.where}: model_type {kind!r} and architectures {words[0]!r} contradict each other; "
            "correct one of them"
        )


def _rows(rows: list[Layer], quantization: Quantization) -> dict[str, Any]:
    """Kinds of layers by name, and the kind of each layer."""
    fused = True
    formatted = with_formats(rows, quantization, fused)
    if formatted is None:  # a fused matrix whose parts have different formats is kept in parts
        fused = False
        formatted = with_formats(rows, quantization, fused)
    assert formatted is not None
    kinds: dict[str, Layer] = {}
    pattern = []
    for layer in formatted:
        name = next((n for n, known in kinds.items() if known == layer), None)
        if name is None:
            name = _kind_name(layer, kinds)
            kinds[name] = layer
        pattern.append(name)
    first = formatted[0].ffn if formatted else None
    widths = [f.ffn.width for f in formatted if isinstance(f.ffn, Mlp)]
    routed = [f.ffn for f in formatted if isinstance(f.ffn, Experts)]
    return {
        "kinds": kinds,
        "pattern": pattern,
        "fused": fused,
        "activation": "swiglu" if getattr(first, "gated", True) else "gelu",
        **({"ffn": widths[0]} if widths else {}),
        **({"expert_ffn": routed[0].width} if routed else {}),
    }


def _kind_name(layer: Layer, kinds: dict[str, Layer]) -> str:
    """What a layer is called in traces: dense, moe, window_moe, delta_dense, and a number where needed."""
    mixer, ffn = layer.mixer, layer.ffn
    last = "" if ffn is None else "dense" if isinstance(ffn, Mlp) else "moe"
    kind = "" if mixer is None else str(type(mixer).__struct_config__.tag)
    if kind in ("attention", "latent") and ffn is not None:
        kind = ""
    if getattr(mixer, "window", 0) and kind != "compressed":
        kind = "window"
    if getattr(mixer, "chunk", 0):
        kind = "chunk"
    if getattr(mixer, "index", None) is not None:
        kind = "sparse"
    base = "_".join(word for word in (kind, last) if word) or "empty"
    number = sum(name.split("-")[0] == base for name in kinds)
    return f"{base}-{number + 1}" if number else base


def _gpt2(keys: Keys, path: Path) -> Decoder:
    hidden = keys.count("n_embd")
    return Decoder(
        name=_name(path, "gpt2"),
        layers=keys.count("n_layer"),
        hidden=hidden,
        heads=keys.count("n_head"),
        ffn=keys.count("n_inner", default=0) or 4 * hidden,
        vocab=keys.count("vocab_size"),
        positions=keys.count("n_positions"),
        norm="layer",
        activation="gelu",
        bias=True,
        tied=keys.flag("tie_word_embeddings", True),
        dropout=bool(keys.get("resid_pdrop", 0.0)),
    )
