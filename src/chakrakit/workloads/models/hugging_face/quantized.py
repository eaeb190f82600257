"""The precision that files state: `quantization_config`, or `hf_quant_config.json` beside a configuration."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chakrakit.errors import ConfigError
from chakrakit.operators import dtype_name
from chakrakit.workloads.description import Format, Layer, Precision
from chakrakit.workloads.models.hugging_face.keys import Keys
from chakrakit.workloads.models.hugging_face.modules import HEAD, modules_of

_WHOLE_ROW = 1 << 40
"""Of a scale for each output: more inputs than any matrix has."""
_NVFP4 = Format(dtype="nvfp4", block=(16,), scale="fp8_e4m3", activations="nvfp4")
_ALGORITHMS: dict[str, Format] = {
    "FP8": Format(dtype="fp8_e4m3", activations="fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": Format(dtype="fp8_e4m3", block=(1, _WHOLE_ROW), activations="fp8"),
    "FP8_PB_WO": Format(dtype="fp8_e4m3", block=(128, 128)),
    "FP8_PB_REAL": Format(dtype="fp8_e4m3", block=(128, 128), activations="fp8"),
    "NVFP4": _NVFP4,
    "NVFP4_AWQ": _NVFP4,
    "W4A16_NVFP4": _NVFP4.replace(activations=""),
    "W4A8_NVFP4_FP8": _NVFP4.replace(activations="fp8"),
    "MXFP8": Format(dtype="mxfp8", block=(32,), scale="ue8m0", activations="mxfp8"),
    "MXFP4": Format(dtype="mxfp4", block=(32,), scale="ue8m0"),
    "W4A8_MXFP4_FP8": Format(dtype="mxfp4", block=(32,), scale="ue8m0", activations="fp8"),
    "W4A16_AWQ": Format(dtype="int4", block=(128,), scale="bf16"),
    "W4A8_AWQ": Format(dtype="int4", block=(128,), scale="bf16", activations="fp8"),
    "W8A16": Format(dtype="int8", block=(1, _WHOLE_ROW), scale="bf16"),
    "W8A8_SQ_PER_CHANNEL": Format(dtype="int8", block=(1, _WHOLE_ROW), activations="int8"),
    "INT8": Format(dtype="int8", block=(1, _WHOLE_ROW), activations="int8"),
}
"""Formats by the names that NVIDIA's ModelOpt gives them; block sizes that files state win."""
_NONE = ("", "NONE", "null")
NEVER = ("attention.conv", "attention.index.weights")
"""Weights that are no matrices of a product, or whose products files keep in full precision throughout."""


@dataclass
class Quantization:
    """The format of every module by its name, `layers.3.self_attn.q_proj`."""

    default: str = ""
    """The format of what nothing else is said of; empty: none."""
    formats: dict[str, Format] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    """Formats of single modules."""
    excluded: Callable[[str], bool] = lambda _name: False
    patterns: int = 0
    experts: str = ""
    """The format of routed experts where it is another one."""
    router: bool = False
    """Whether routers are quantized unless they are excluded."""
    head: bool = False
    cache: str = ""
    method: str = ""

    def of(self, module: str, *, routed: bool = False) -> str:
        """The name of a module's format; empty for none."""
        if module in self.named:
            return self.named[module]
        if not self.default or self.excluded(module):
            return ""
        return self.experts if routed and self.experts else self.default


def quantization_of(config: Keys, text: Keys, beside: Keys | None) -> Quantization:
    """What files say of a model's precision: the configuration first, then the file beside it."""
    stated = config.part("quantization_config") or text.part("quantization_config")
    other = beside.part("quantization") if beside else None
    if stated is None and other is None:
        return Quantization()
    quantization = _read(stated, text) if stated is not None else _modelopt(other)  # type: ignore[arg-type]
    if other is not None and not quantization.cache:
        quantization.cache = _cache(other)
    return quantization


def _read(stated: Keys, text: Keys) -> Quantization:
    readers: dict[str, Callable[[Keys], Quantization]] = {
        "fp8": lambda keys: _fp8(keys, text),
        "mxfp4": _mxfp4,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
        "compressed-tensors": _compressed,
        "gptq": _grouped,
        "awq": _grouped,
    }
    method = stated.word("quant_method")
    if method not in readers:
        known = ", ".join(readers)
        raise stated.wrong(
            "quant_method", method, f"one of {known}; other methods are not understood"
        )
    quantization = readers[method](stated)
    quantization.method = method
    return quantization


def _fp8(keys: Keys, text: Keys) -> Quantization:
    """Matrices of one byte an element, with a scale for each block of them."""
    block = tuple(keys.counts("weight_block_size"))
    fmt = dtype_name(keys.word("fmt", "e4m3"))
    static = keys.word("activation_scheme", "dynamic")
    if static not in ("dynamic", "static"):
        raise keys.wrong("activation_scheme", static, "dynamic or static")
    experts = text.word("expert_dtype") or keys.word("expert_dtype")
    scale = "ue8m0" if experts == "fp4" else "fp32"
    formats = {fmt: Format(dtype=fmt, block=block, scale=scale, activations="fp8")}
    if experts == "fp4":
        formats["mxfp4"] = Format(dtype="mxfp4", block=(32,), scale="ue8m0", activations="fp8")
    elif experts not in ("", "fp8"):
        raise text.wrong("expert_dtype", experts, "fp4 or fp8")
    names = _names(keys, "modules_to_not_convert", "ignored_layers")
    return Quantization(
        default=fmt,
        formats=formats,
        excluded=matcher(names),
        patterns=len(names),
        experts="mxfp4" if experts == "fp4" else "",
    )


def _mxfp4(keys: Keys) -> Quantization:
    """Experts alone have four bits (gpt-oss)."""
    names = _names(keys, "modules_to_not_convert")
    only_experts = re.compile(r"\.experts(\.|$)")
    rest = matcher(names)
    return Quantization(
        default="mxfp4",
        formats={"mxfp4": _ALGORITHMS["MXFP4"]},
        excluded=lambda name: rest(name) or not only_experts.search(name),
        patterns=len(names),
    )


def _modelopt(keys: Keys) -> Quantization:
    """One algorithm for all but what is excluded, or one for each module that is named."""
    algorithm = keys.word("quant_algo")
    keys.skip("producer", "config_groups")
    group = keys.count("group_size", default=0)
    names = _names(keys, "exclude_modules", "ignore")
    quantization = Quantization(
        excluded=matcher(names), patterns=len(names), cache=_cache(keys), method="modelopt",
        router=True, head=True,
    )  # fmt: skip
    if algorithm in ("MIXED_PRECISION", "MIXED"):
        layers = keys.part("quantized_layers")
        if layers is None:
            raise keys.wrong("quantized_layers", None, "the algorithm of each module")
        for name in layers.content:
            entry = layers.part(name)
            if entry is not None:
                chosen = entry.word("quant_algo")
                quantization.named[short(name)] = _add(
                    quantization, entry, chosen, entry.count("group_size", default=0)
                )
    elif algorithm not in _NONE:
        quantization.default = _add(quantization, keys, algorithm, group)
    return quantization


def _add(quantization: Quantization, keys: Keys, algorithm: str, group: int) -> str:
    """Adds an algorithm's format and gives its name."""
    if algorithm in _NONE:
        return ""
    known = _ALGORITHMS.get(algorithm)
    if known is None:
        raise keys.wrong("quant_algo", algorithm, f"one of {', '.join(_ALGORITHMS)}")
    if group and len(known.block) == 1:
        known = known.replace(block=(group,))
    name = "fp8_e4m3" if algorithm == "FP8" else algorithm.lower()
    quantization.formats[name] = known
    return name


def _compressed(keys: Keys) -> Quantization:
    """Groups of modules, each with the bits of its weights and of its inputs."""
    names = _names(keys, "ignore")
    quantization = Quantization(
        excluded=matcher(names), patterns=len(names), cache=_cache(keys), router=True, head=True
    )
    groups = keys.part("config_groups")
    for name in groups.content if groups else ():
        group = groups.part(name)  # type: ignore[union-attr]
        if group is None:
            continue
        form = _scheme(group)
        label = form.dtype
        quantization.formats[label] = form
        targets = _names(group, "targets")
        if any(t in ("Linear", "FusedMoE") for t in targets):
            quantization.default = label
        else:
            quantization.named |= {short(t): label for t in targets}
    return quantization


def _scheme(group: Keys) -> Format:
    weights, inputs = group.part("weights"), group.part("input_activations")
    if weights is None:
        raise group.wrong("weights", None, "their bits and type")
    kind = _element(weights)
    size = weights.count("group_size", default=0)
    blocks = {
        "group": (size,),
        "tensor_group": (size,),
        "block": tuple(weights.counts("block_structure")),
        "channel": (1, _WHOLE_ROW),
        "tensor": (),
    }
    strategy = weights.word("strategy", "group" if size else "tensor")
    if strategy not in blocks:
        raise weights.wrong("strategy", strategy, f"one of {', '.join(blocks)}")
    scale = {"nvfp4": "fp8_e4m3", "mxfp4": "ue8m0"}.get(kind, "bf16")
    activations = _element(inputs) if inputs is not None else ""
    return Format(dtype=kind, block=blocks[strategy], scale=scale, activations=activations)


def _element(part: Keys) -> str:
    bits, kind, size = (
        part.count("num_bits"),
        part.word("type"),
        part.count("group_size", default=0),
    )
    names = {(8, "float"): "fp8_e4m3", (4, "float"): "mxfp4" if size == 32 else "nvfp4",
             (8, "int"): "int8", (4, "int"): "int4"}  # fmt: skip
    if (bits, kind) not in names:
        raise part.wrong("num_bits", bits, "4 or 8, of type int or float")
    return names[bits, kind]


def _grouped(keys: Keys) -> Quantization:
    """Whole numbers of few bits with a scale for each group of inputs (GPTQ, AWQ)."""
    bits, group = keys.count("bits"), keys.get("group_size", 128)
    if bits not in (4, 8):
        raise keys.wrong("bits", bits, "4 or 8")
    block = (1, _WHOLE_ROW) if group == -1 else (keys.count("group_size", default=128),)
    names = _names(keys, "modules_to_not_convert")
    label = f"int{bits}"
    return Quantization(
        default=label,
        formats={label: Format(dtype=label, block=block, scale="fp16")},
        excluded=matcher(names),
        patterns=len(names),
    )


def _cache(keys: Keys) -> str:
    """Element type of keys and values; empty where nothing is said."""
    algorithm = keys.word("kv_cache_quant_algo")
    if algorithm not in _NONE:
        known = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8"}
        if algorithm.upper() not in known:
            raise keys.wrong("kv_cache_quant_algo", algorithm, f"one of {', '.join(known)}")
        return known[algorithm.upper()]
    scheme = keys.part("kv_cache_scheme")
    if scheme is None:
        return ""
    return {"fp8_e4m3": "fp8"}.get(_element(scheme), _element(scheme))


def _names(keys: Keys, *options: str) -> list[str]:
    return [name for option in options for name in keys.words(option)]


# --- names of modules ---------------------------------------------------------------------------

_BEFORE = re.compile(r"^(model\.|language_model\.|backbone\.|transformer\.)+")


def short(name: str) -> str:
    """A module's name without what is before `layers`, which files spell differently."""
    return _BEFORE.sub("", name)


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a name is among these: whole names or parts of them, `*`, or `re:` and an expression."""
    plain = [re.escape(short(p)) for p in patterns if "*" not in p and not p.startswith("re:")]
    starred = [fnmatch.translate(short(p)) for p in patterns if "*" in p and p[:3] != "re:"]
    texts = [rf"(?:^|.*\.)(?:{'|'.join(plain)})(?:\..*|$)"] if plain else []
    expressions = [_compiled(text) for text in (*texts, *starred)]
    written = [_compiled(p[3:]) for p in patterns if p.startswith("re:")]

    def excluded(name: str) -> bool:
        return any(e.match(name) for e in expressions) or any(
            e.match(f"{before}{name}")
            for e in written
            for before in ("", "model.", "model.language_model.", "language_model.model.")
        )

    return excluded


_LONGEST_PATTERN = 400_000
"""Characters of all patterns together; the longest published list has 16 thousand."""


def _compiled(text: str) -> re.Pattern[str]:
    if len(text) > _LONGEST_PATTERN or re.search(r"[*+}]\)[*+{]", text):
        raise ConfigError(
            f"a pattern of modules is not taken, as it could take for ever: {text:.60}"
        )
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"a pattern of modules is no regular expression: {text:.60}: {error}"
        ) from None


# --- the formats of layers ----------------------------------------------------------------------


def precision_of(quantization: Quantization, dtype: str, source: str) -> Precision | None:
    """The precision as a description has it; None where nothing is quantized and no type is stated."""
    if not (quantization.formats or quantization.cache or dtype):
        return None
    head = quantization.of(HEAD) if quantization.head else quantization.named.get(HEAD, "")
    ends = {"head": head} if head else {}
    return Precision(
        formats=quantization.formats,
        ends=ends,
        cache=quantization.cache,
        dtype=dtype,
        method=quantization.method,
        excluded=quantization.patterns,
        source=source,
    )


def with_formats(
    rows: Iterable[Layer], quantization: Quantization, fused: bool
) -> list[Layer] | None:
    """The layers with the formats of their weights; None if parts of a fused matrix differ."""
    formatted = []
    for number, layer in enumerate(rows):
        formats: dict[str, str] = {}
        for weight, parts in modules_of(layer, fused).items():
            kinds = {_format(quantization, number, weight, names) for names in parts}
            if len(kinds) > 1:
                return None
            kind = kinds.pop()
            if kind and not weight.startswith(NEVER):
                formats[weight] = kind
        formatted.append(layer.replace(formats=formats))
    return formatted


def _format(quantization: Quantization, layer: int, weight: str, names: Sequence[str]) -> str:
    """The format of a matrix that files know by one of several names."""
    modules = [f"layers.{layer}.{name}" for name in names]
    named = [quantization.named[m] for m in modules if m in quantization.named]
    if named:
        return named[0]
    if weight == "moe.router" and not quantization.router:
        return ""
    if any(quantization.excluded(m) for m in modules):
        return ""
    return quantization.of(modules[0], routed=weight.startswith("moe.experts"))
