"""How files state a precision: `quantization_config` by its `quant_method`, or `hf_quant_config.json`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chakrakit.operators import dtype_name
from chakrakit.workloads.description import UNQUANTIZED, WHOLE_ROW, Format
from chakrakit.workloads.models.hugging_face.keys import Keys
from chakrakit.workloads.models.hugging_face.quantized import Quantization, matcher, short

_NVFP4 = Format(dtype="nvfp4", block=(16,), scale="fp8_e4m3", activations="nvfp4")
_ALGORITHMS: dict[str, Format] = {
    "FP8": Format(dtype="fp8_e4m3", activations="fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": Format(dtype="fp8_e4m3", block=(1, WHOLE_ROW), activations="fp8"),
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
    "W8A16": Format(dtype="int8", block=(1, WHOLE_ROW), scale="bf16"),
    "W8A8_SQ_PER_CHANNEL": Format(dtype="int8", block=(1, WHOLE_ROW), activations="int8"),
    "INT8": Format(dtype="int8", block=(1, WHOLE_ROW), activations="int8"),
}
"""Formats by the names that NVIDIA's ModelOpt gives them; block sizes that files state win."""
_NONE = ("", "NONE", "null")
_OF_PRECISION = re.compile(
    r"kv|cache|act|bit|scheme|dtype|algo|zero|embed|module|transform|rotat|hadamard"
)
"""What names of keys have in common that change a precision."""
_PASSED_OVER = re.compile(
    r"""
      quant_method | quantization_status | global_compression_ratio | .*scale_(ub|fmt|format|dtype)
    | desc_act | act_order | hyb_act | static_.* | model_.* | checkpoint_format | meta | pack_dtype
    | exllama_config | max_input_length | cache_block_outputs | block_name_to_quantize | to_quant_block_names
    | quant_block_list | module_name_preceding_first_block | batch_size | modules_to_fuse | fuse_max_seq_len
    | amp_dtype | enable_.* | gradient_accumulate_steps | nsamples | act_(data_type|dynamic|group_size|sym)
    | bnb_4bit_(compute_dtype|quant_storage) | llm_int8_(enable_fp32_cpu_offload|has_fp16_weight|threshold)
    | quant_type_kwargs | algo_config | quant_mode | kv_cache_(group|post_rope) | has_zero_point
    | pre_quant_scale | smoothquant_val
    """,
    re.VERBOSE,
)
"""Keys that say how a precision was found, packed or is to be loaded, and change neither bytes nor work."""


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
        "auto-round": _grouped,
        "intel/auto-round": _grouped,
        "hqq": _hqq,
        "bitsandbytes": _bitsandbytes,
        "fbgemm_fp8": _fbgemm,
        "torchao": _torchao,
        "quark": _quark,
    }
    method = stated.word("quant_method")
    if not method and {"load_in_4bit", "load_in_8bit"} & stated.content.keys():
        method = "bitsandbytes"  # files from before the method had a key
    if method not in readers:
        known = ", ".join(readers)
        raise stated.wrong(
            "quant_method", method, f"one of {known}; other methods are not understood"
        )
    quantization = readers[method](stated)
    quantization.method = method
    stated.skip(*filter(_PASSED_OVER.fullmatch, stated.content))
    stated.refuse_unread(f"precision by {method}", _OF_PRECISION)
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
    sparsity = keys.part("sparsity_config")
    structure = sparsity.get("sparsity_structure") if sparsity else None
    if structure not in (None, "unstructured", "0:0"):  # which leave every product as it is
        raise keys.wrong("sparsity_config", structure, "unstructured: others are not built in")
    groups = keys.part("config_groups")
    for name in groups.content if groups else ():
        group = groups.part(name)  # type: ignore[union-attr]
        if group is None:
            continue
        label = quantization.add(_scheme(group))
        targets = _names(group, "targets")
        kinds = [t for t in targets if t in ("Linear", "FusedMoE")]
        if kinds:
            quantization.default = label
        _state(quantization, [t for t in targets if t not in kinds], label)
    return quantization


def _state(quantization: Quantization, names: list[str], label: str) -> None:
    """Gives the modules of these names a format: whole names, or `re:` and an expression."""
    patterns = [n for n in names if n.startswith("re:") or "*" in n]
    quantization.named |= {short(n): label for n in names if n not in patterns}
    if patterns:
        quantization.matched.append((matcher(patterns), label))


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
        "channel": (1, WHOLE_ROW),
        "tensor": (),
    }
    strategy = weights.word("strategy", "group" if size else "tensor")
    if strategy not in blocks:
        raise weights.wrong("strategy", strategy, f"one of {', '.join(blocks)}")
    scale = {"nvfp4": "fp8_e4m3", "mxfp4": "ue8m0"}.get(kind, "bf16")
    read = _element(inputs) if inputs is not None else ""
    activations = {"fp8_e4m3": "fp8"}.get(read, read)
    zeros = kind if kind.startswith("int") and weights.get("symmetric") is False else ""
    return Format(
        dtype=kind, block=blocks[strategy], scale=scale, zeros=zeros, activations=activations
    )


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
    """Whole numbers of few bits with a scale for each group of inputs (GPTQ, AWQ, AutoRound).

    Files have a zero point of as many bits for each scale (`qzeros`), also where all are the same; AWQ's can
    say that there is none. What GPTQ's say of the order of inputs (`g_idx`, four bytes for each input of a
    matrix) is not counted: engines keep it only where inputs were put into another order.
    """
    kind = keys.word("data_type", "int")
    if kind != "int":
        raise keys.wrong("data_type", kind, "int; others are not understood")
    if (inputs := keys.count("act_bits", default=16)) < 16:
        raise keys.wrong("act_bits", inputs, "16; inputs of few bits are not understood here")
    form = _integers(
        keys, keys.count("bits", "w_bit"), keys.get("group_size", keys.get("q_group_size", 128))
    )
    if keys.get("zero_point") is not False:
        form = form.replace(zeros=form.dtype)
    names = _names(keys, "modules_to_not_convert")
    left = [f"re:{n[2:]}" for n in _overrides(keys, "dynamic") if n.startswith("-:")]
    quantization = Quantization(
        excluded=matcher([*names, *left]),
        patterns=len(names) + len(left),
        head=keys.flag("lm_head"),
    )
    quantization.default = quantization.add(form)
    for option in ("dynamic", "extra_config"):
        for name in _overrides(keys, option):
            if not name.startswith("-:"):
                _override(quantization, keys.part(option), name, form)  # type: ignore[arg-type]
    return quantization


def _overrides(keys: Keys, option: str) -> list[str]:
    """Names of the modules that have bits of their own."""
    part = keys.part(option)
    return list(part.content) if part else []


def _override(quantization: Quantization, stated: Keys, name: str, form: Format) -> None:
    """A module with bits of its own: more than 8 are none."""
    own = stated.part(name)
    label = UNQUANTIZED
    if own is not None:
        bits = own.count("bits", default=4 if form.dtype == "int4" else 8)
        if bits < 16:
            chosen = _integers(own, bits, own.get("group_size", form.block[-1]))
            zeros = chosen.dtype if form.zeros else ""
            label = quantization.add(chosen.replace(zeros=zeros))
    expression = name.removeprefix("+:")
    plain = re.fullmatch(r"[\w.]+", expression) is not None
    _state(quantization, [expression if plain else f"re:{expression}"], label)


def _integers(keys: Keys, bits: int, group: Any) -> Format:
    """Whole numbers, with a scale for each group of inputs, or for each output where it is -1."""
    if bits not in (2, 4, 8):
        raise keys.wrong("bits", bits, "2, 4 or 8")
    if not isinstance(group, int) or group < -1:
        raise keys.wrong("group_size", group, "a whole number, or -1 for all inputs")
    block = (1, WHOLE_ROW) if group in (-1, 0, WHOLE_ROW) else (group,)
    return Format(dtype=f"int{bits}", block=block, scale="fp16")


def _hqq(keys: Keys) -> Quantization:
    """Half-quadratic quantization: one setting for all, or one for each name of a module."""
    settings = keys.part("quant_config")
    if settings is None:
        raise keys.wrong("quant_config", None, "bits and groups")
    names = _names(keys, "skip_modules")
    quantization = Quantization(excluded=matcher(names), patterns=len(names))
    entries = {"": settings} if "weight_quant_params" in settings.content else {
        name: part for name in settings.content if (part := settings.part(name)) is not None
    }  # fmt: skip
    for name, entry in entries.items():
        own = entry.part("weight_quant_params") or entry
        chosen = _integers(own, own.count("nbits"), own.get("group_size", 64))
        label = quantization.add(chosen.replace(zeros="fp16"))
        if name:
            _state(quantization, [f"re:.*{re.escape(name)}$"], label)
        else:
            quantization.default = label
    return quantization


def _bitsandbytes(keys: Keys) -> Quantization:
    """Four bits with a scale for each 64 elements, or eight with one for each output.

    Scales of scales (double quantization: 4 bytes for 256 of them) are not counted.
    """
    names = _names(keys, "llm_int8_skip_modules")
    quantization = Quantization(excluded=matcher(names), patterns=len(names))
    if keys.flag("load_in_4bit") or keys.flag("_load_in_4bit"):
        label = keys.word("bnb_4bit_quant_type", "fp4")
        if label not in ("fp4", "nf4"):
            raise keys.wrong("bnb_4bit_quant_type", label, "fp4 or nf4")
        scale = "uint8" if keys.flag("bnb_4bit_use_double_quant") else "fp32"
        quantization.default = quantization.add(
            Format(dtype="int4", block=(64,), scale=scale), label
        )
    elif keys.flag("load_in_8bit") or keys.flag("_load_in_8bit"):
        quantization.default = quantization.add(_ALGORITHMS["W8A8_SQ_PER_CHANNEL"])
    else:
        raise keys.wrong("load_in_4bit", False, "true, or load_in_8bit")
    return quantization


def _fbgemm(keys: Keys) -> Quantization:
    """FP8 with a scale for each output."""
    names = _names(keys, "modules_to_not_convert")
    quantization = Quantization(excluded=matcher(names), patterns=len(names))
    quantization.default = quantization.add(_ALGORITHMS["FP8_PER_CHANNEL_PER_TOKEN"])
    return quantization


_INT4 = Format(dtype="int4", block=(128,), scale="bf16")
_INT8 = Format(dtype="int8", block=(1, WHOLE_ROW), scale="bf16")
_TORCHAO: dict[str, Format] = {
    "Int4WeightOnly": _INT4.replace(zeros="bf16"),
    "Float8DynamicActivationInt4Weight": _INT4.replace(activations="fp8"),
    "Int8DynamicActivationInt4Weight": _INT4.replace(block=(32,), activations="int8"),
    "Int8WeightOnly": _INT8,
    "Int8DynamicActivationInt8Weight": _INT8.replace(activations="int8"),
    "Float8WeightOnly": Format(dtype="fp8_e4m3", block=(1, WHOLE_ROW)),
    "Float8DynamicActivationFloat8Weight": _ALGORITHMS["FP8"],
    "Float8StaticActivationFloat8Weight": _ALGORITHMS["FP8"],
}
"""Formats by the names of torchao's configurations; group sizes that files state win."""


def _torchao(keys: Keys) -> Quantization:
    """One of torchao's configurations, as a word or written out, or one for each name of a module."""
    names = _names(keys, "modules_to_not_convert")
    quantization = Quantization(excluded=matcher(names), patterns=len(names))
    stated = keys.get("quant_type")
    if isinstance(stated, str):
        words = "".join(word.capitalize() for word in stated.split("_"))
        more = keys.part("quant_type_kwargs")
        group = more.count("group_size", default=0) if more else 0
        quantization.default = quantization.add(_torchao_format(keys, words, group))
        return quantization
    entry = (keys.part("quant_type") or keys).part("default")
    if entry is None:
        raise keys.wrong("quant_type", stated, "the name of a configuration")
    if entry.word("_type") != "ModuleFqnToConfig":
        quantization.default = quantization.add(_torchao_entry(entry))
        return quantization
    inside = entry.part("_data")
    modules = inside.part("module_fqn_to_config") if inside else None
    for name in modules.content if modules else ():
        own = modules.part(name)  # type: ignore[union-attr]
        label = quantization.add(_torchao_entry(own)) if own is not None else UNQUANTIZED
        if name == "_default":
            quantization.default = label
        else:
            _state(quantization, [name], label)
    return quantization


def _torchao_entry(entry: Keys) -> Format:
    """A configuration as torchao writes it: `_type`, and its settings under `_data`."""
    inside = entry.part("_data")
    group = inside.count("group_size", default=0) if inside else 0
    return _torchao_format(entry, entry.word("_type").removesuffix("Config"), group)


def _torchao_format(keys: Keys, name: str, group: int) -> Format:
    form = _TORCHAO.get(name)
    if form is None:
        raise keys.wrong("quant_type", name, f"one of {', '.join(_TORCHAO)}")
    return form.replace(block=(group,)) if group and len(form.block) == 1 else form


def _quark(keys: Keys) -> Quantization:
    """AMD's Quark: one setting for all modules, others for modules by name."""
    names = _names(keys, "exclude")
    quantization = Quantization(
        excluded=matcher(names), patterns=len(names), router=True, head=True
    )
    stated = keys.part("global_quant_config")
    if stated is None:
        raise keys.wrong("global_quant_config", None, "the bits of weights and inputs")
    quantization.default = _quark_label(quantization, stated)
    for name, own in _parts(keys.part("layer_quant_config")):
        _state(quantization, [name], _quark_label(quantization, own))
    if keys.get("layer_type_quant_config"):
        raise keys.wrong("layer_type_quant_config", keys.get("layer_type_quant_config"), "empty")
    made = [own.part("output_tensors") for _, own in _parts(keys.part("kv_cache_quant_config"))]
    kinds = {_quark_element(part) for part in made if part is not None}
    if len(kinds) > 1:
        raise keys.wrong("kv_cache_quant_config", sorted(kinds), "of one type")
    kind = next(iter(kinds), "")
    quantization.cache = {"fp8_e4m3": "fp8"}.get(kind, kind)
    return quantization


def _parts(keys: Keys | None) -> list[tuple[str, Keys]]:
    """The configurations inside one, by name."""
    if keys is None:
        return []
    parts = ((name, keys.part(name)) for name in keys.content)
    return [(name, part) for name, part in parts if part is not None]


def _quark_label(quantization: Quantization, stated: Keys) -> str:
    weights, inputs = stated.part("weight"), stated.part("input_tensors")
    if weights is None:
        return UNQUANTIZED
    kind = _quark_element(weights)
    size = weights.count("group_size", default=0)
    blocks = {"per_tensor": (), "per_channel": (1, WHOLE_ROW), "per_group": (size,)}
    scheme = weights.word("qscheme", "per_tensor")
    if scheme not in blocks:
        raise weights.wrong("qscheme", scheme, f"one of {', '.join(blocks)}")
    scale = {"mxfp4": "ue8m0", "mxfp6": "ue8m0", "int4": "bf16"}.get(kind, "fp32")
    activations = _quark_element(inputs) if inputs is not None else ""
    return quantization.add(
        Format(
            dtype=kind,
            block=blocks[scheme],
            scale=scale,
            activations={"fp8_e4m3": "fp8"}.get(activations, activations),
        )
    )


def _quark_element(part: Keys) -> str:
    known = {
        "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "fp4": "mxfp4", "mxfp4": "mxfp4",
        "fp6_e2m3": "mxfp6", "fp6_e3m2": "mxfp6", "int8": "int8", "int4": "int4", "uint4": "int4",
    }  # fmt: skip
    word = part.word("dtype")
    if word not in known:
        raise part.wrong("dtype", word, f"one of {', '.join(known)}")
    return known[word]


def _cache(keys: Keys) -> str:
    """Element type of keys and values; empty where nothing is said."""
    algorithm = keys.word("kv_cache_quant_algo")
    keys.skip("kv_cache_scheme")
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
