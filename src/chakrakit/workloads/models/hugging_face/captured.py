"""A decoder from a model that transformers builds on the meta device and that is run there.

Nothing is computed and nothing is downloaded: tensors on the meta device have shapes and no values. The
model runs forward at two lengths with its cache, once more for a single token on top of it, and
backward; what each layer did tells its work for a token and for a pair of tokens, and what it keeps.
Experts are not run, as which of them a token meets depends on values; they count as routed. Programs
that a repository brings are never run.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.workloads.description import Layer, Matrix, Recorded
from chakrakit.workloads.models.hugging_face.keys import Keys

SHORT, LONG = 128, 256
"""Tokens of the two runs: multiples of the chunks in which recurrences work."""
MOST_LAYERS = 1024
"""More than any published model has; a file that says more is not built."""
_CURE = "describe the model in YAML, or capture a program of yours that runs it"
_LOOSE = 0.02
"""The same for a single token, whose attention some models run in another way."""
_LEAST_BACKWARD, _MOST_BACKWARD = 1.5, 3.0
"""Fused attention computes its scores again; experts and frozen parts have no gradient here."""
_SLACK = 1e-3
"""Part of a layer's work by which what it did may stay below what its matrices say."""


@dataclass(frozen=True)
class CapturedModel:
    """What a run on the meta device tells of a language model."""

    rows: list[Layer]
    hidden: int
    heads: int
    vocab: int
    tied: bool
    extra: int
    """Parameters outside of layers, embedding and head."""
    experts: int
    top_k: int
    vision: int
    """Parameters that are not the language model's."""


def captured(keys: Keys, path: Path) -> CapturedModel:
    """The model of a configuration, as transformers builds it; a ConfigError says what it cannot do."""
    torch, transformers = _libraries(keys.word("model_type"))
    config = _configuration(transformers, keys, path)
    with _quiet(transformers):
        try:
            model = _built(torch, transformers, config)
            described = _Capture(torch, model, config, path).description()
            if _takes_text_alone(config):
                return described
            beside, tied = beside_text(keys, path)
            return replace(described, vision=beside, tied=tied)
        except Exception as error:  # the model's own code may raise anything
            raise _unrunnable(transformers, path, error) from None


def known_to_transformers(*parts: Keys) -> bool:
    """Whether transformers is here and has a place for every key that our own reader left unread."""
    if (
        importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec("torch") is None
    ):
        return False
    transformers = importlib.import_module("transformers")
    kind = parts[0].word("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        return False
    whole = transformers.CONFIG_MAPPING[kind]()
    defaults = (whole.to_dict(), whole.get_text_config().to_dict())
    return all(
        key in default
        for part, default in zip(parts, defaults, strict=False)
        for key in part.unread()
    )


def beside_text(keys: Keys, path: Path) -> tuple[int, bool]:
    """Parameters of a model that are not its language model's, and whether its head is its embedding."""
    torch, transformers = _libraries(keys.word("model_type"))
    config = _configuration(transformers, keys, path)
    with _quiet(transformers):
        try:
            model = _whole(torch, transformers, config)
            place, _ = _decoder_layers(torch, model, config.get_text_config(), path)
            return _parameters(model) - _language(model, place), _is_tied(model)
        except Exception as error:  # the model's own code may raise anything
            raise _unrunnable(transformers, path, error) from None


def _unrunnable(transformers: Any, path: Path, error: Exception) -> ConfigError:
    if isinstance(error, ConfigError):
        return error
    return ConfigError(
        f"{path}: transformers {transformers.__version__} cannot run this model without values: "
        f"{type(error).__name__}: {error!s:.200}; {_CURE}"
    )


def _libraries(kind: str) -> tuple[Any, Any]:
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError:
        raise MissingExtra(f"model_type {kind!r}, which is not built in,", "models") from None


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Warnings of a library about a model that only lends its shapes are not for the user."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(level)


def _configuration(transformers: Any, keys: Keys, path: Path) -> Any:
    content = {
        k: v for k, v in keys.content.items() if k not in ("quantization_config", "auto_map")
    }
    kind = str(content.pop("model_type", ""))
    if kind not in transformers.CONFIG_MAPPING:
        own = (
            " Its repository brings a program of its own, which is never run."
            if "auto_map" in keys.content
            else ""
        )
        raise ConfigError(
            f"{path}: model_type {kind!r} is neither built in nor known to transformers "
            f"{transformers.__version__}.{own} Describe the model in YAML, or use a newer transformers"
        )
    try:
        config = transformers.AutoConfig.for_model(kind, **content)
    except Exception as error:  # configuration classes check what they like
        raise ConfigError(f"{path}: not a configuration of {kind}: {error!s:.200}") from None
    _check_kind(config, kind, path)
    try:
        layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    except ValueError as error:  # several texts inside
        raise ConfigError(f"{path}: {error!s:.160}; {_CURE}") from None
    if not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        raise ConfigError(
            f"{path}: num_hidden_layers is {layers!r}; it should be 1 to {MOST_LAYERS}"
        )
    return config


def _built(torch: Any, transformers: Any, config: Any) -> Any:
    """The language model on the meta device, as it serves: nothing is dropped at random."""
    ways = (
        (transformers.AutoModelForCausalLM, config),
        (transformers.AutoModelForCausalLM, config.get_text_config()),
        (transformers.AutoModelForImageTextToText, config),
    )
    return _first_of(torch, ways)


def _whole(torch: Any, transformers: Any, config: Any) -> Any:
    """The model with everything that turns other inputs into tokens."""
    names = ("AutoModelForImageTextToText", "AutoModelForMultimodalLM", "AutoModelForCausalLM")
    autos = [getattr(transformers, name) for name in names if hasattr(transformers, name)]
    return _first_of(torch, tuple((auto, config) for auto in autos))


def _first_of(torch: Any, ways: tuple[tuple[Any, Any], ...]) -> Any:
    with torch.device("meta"):
        for auto, described in ways:
            try:
                return auto.from_config(described, dtype=torch.bfloat16).eval()
            except ValueError as error:
                refused = error
    raise ConfigError(f"transformers has no language model for it: {refused!s:.120}; {_CURE}")


def _takes_text_alone(config: Any) -> bool:
    return config.get_text_config() is config


def _check_kind(config: Any, kind: str, path: Path) -> None:
    """Refuse what is no decoder: of these, transformers would build the half that looks like one."""
    if getattr(config, "is_encoder_decoder", False):
        raise ConfigError(
            f"{path}: {kind} is an encoder with a decoder, and models here are decoders alone; "
            f"{_CURE}"
        )


@dataclass
class _Work:
    """FLOPs by layer; -1 is what is outside of layers."""

    flops: dict[int, int] = field(default_factory=dict)
    current: int = -1


def _decoder_layers(torch: Any, model: Any, config: Any, path: Path) -> tuple[str, Any]:
    """The list of layers, and its name: of lists as long as the model is deep, the largest."""
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == config.num_hidden_layers
    ]
    if not lists:
        count = config.num_hidden_layers
        raise ConfigError(f"{path}: no list of {count} layers in the model; {_CURE}")
    return max(lists, key=lambda entry: _parameters(entry[1]))


def _language(model: Any, place: str) -> int:
    """Parameters of what has the layers in it, and of the head."""
    prefix = place.rsplit(".", 1)[0] + "."
    head = model.get_output_embeddings()
    seen = {id(p): p.numel() for n, p in model.named_parameters() if n.startswith(prefix)}
    seen |= {id(p): p.numel() for p in (head.parameters() if head is not None else ())}
    embedding = model.get_input_embeddings().weight
    seen[id(embedding)] = embedding.numel()
    return sum(seen.values())


def _is_tied(model: Any) -> bool:
    head = model.get_output_embeddings()
    return head is None or head.weight is model.get_input_embeddings().weight


class _Capture:
    """One model, run a few times."""

    def __init__(self, torch: Any, model: Any, config: Any, path: Path) -> None:
        self.torch, self.model, self.path = torch, model, path
        self.config = config.get_text_config()
        self.place, self.layers = _decoder_layers(torch, model, self.config, path)
        self.experts = self._expert_modules() if self._top_k() else []
        self._check_experts()

    def _expert_modules(self) -> list[Any]:
        """Modules that hold the matrices of all experts of a layer."""
        modules = []
        for layer in self.layers:
            for module in layer.modules():
                own = [p for _, p in module.named_parameters(recurse=False)]
                convolves = isinstance(module, self.torch.nn.modules.conv._ConvNd)
                if any(p.dim() == 3 for p in own) and not convolves:
                    modules.append(module)
        return modules

    def _check_experts(self) -> None:
        """Modules that are called experts must be known as such, or every token would meet all of them."""
        names = [
            n for n, m in self.layers.named_modules() if n.endswith("experts") and _parameters(m)
        ]
        if names and not self._top_k():
            raise ConfigError(
                f"{self.path}: {self.place}.{names[0]} holds experts, and how many of them a token meets is "
                f"under none of {', '.join(_TOP_K)}; {_CURE}"
            )

    def description(self) -> CapturedModel:
        """Everything that the runs tell."""
        for module in self.experts:
            module.forward = lambda hidden, *_, **__: self.torch.empty_like(hidden)
        short, cache = self._run(SHORT)
        long, longer = self._run(LONG)
        rows = [self._layer(i, short, long, cache, longer) for i in range(len(self.layers))]
        self._check_cache(rows)
        self._check_single(rows, short, long, cache)  # which adds to the cache
        self._check_backward()
        return self._described(rows)

    def _run(self, tokens: int) -> tuple[_Work, Any]:
        ids = self.torch.empty((1, tokens), dtype=self.torch.long, device="meta")
        work = _Work()
        with self.torch.no_grad(), _counting(self.torch, work, self.layers):
            out = self.model(input_ids=ids, use_cache=True)
        return work, getattr(out, "past_key_values", None)

    def _layer(self, number: int, short: _Work, long: _Work, cache: Any, longer: Any) -> Layer:
        module = self.layers[number]
        per_pair, per_token = _coefficients(short, long, number)
        matrices = self._matrices(number)
        plain = sum(2 * m.inputs * m.outputs for m in matrices if not m.experts)
        if per_token < plain * (1 - _SLACK):
            raise ConfigError(
                f"{self.path}: layer {number} computes {per_token:,.0f} FLOPs for a token and its matrices "
                f"say {plain:,}; what it does with them is not understood; {_CURE}"
            )
        elements = [_cache_elements(c, number, self.torch) for c in (cache, longer)]
        grown = (elements[1] - elements[0]) / (LONG - SHORT)
        counted = sum(m.inputs * m.outputs * max(1, m.experts) for m in matrices)
        mixer = Recorded(
            matrices=matrices,
            vectors=_parameters(module) - counted,
            flops_per_pair=max(0.0, per_pair),
            flops_per_token=max(0.0, per_token - plain),
            cache=round(grown),
            fixed=round(elements[0] - grown * SHORT),
            window=self._window(number),
        )
        return Layer(mixer=mixer)

    def _window(self, number: int) -> int:
        """The window of a layer whose type says that it slides."""
        types = getattr(self.config, "layer_types", None) or []
        if number < len(types) and "sliding" in str(types[number]):
            return int(getattr(self.config, "sliding_window", 0) or 0)
        return 0

    def _matrices(self, number: int) -> list[Matrix]:
        matrices = []
        plan = self._plan()
        for name, module in self.layers[number].named_modules():
            if module in self.experts:
                for n, p in module.named_parameters(recurse=False):
                    if p.dim() == 3:
                        matrices.append(
                            _expert_matrix(f"{name}.{n}".strip("."), p, self.config.hidden_size)
                        )
            elif isinstance(module, self.torch.nn.Linear):
                cut: Any = next((c for pattern, c in plan.items() if pattern.fullmatch(name)), "")
                matrices.append(
                    Matrix(
                        name=name, inputs=module.in_features, outputs=module.out_features, cut=cut
                    )
                )
        return matrices

    def _plan(self) -> Mapping[re.Pattern[str], Any]:
        """How transformers itself cuts matrices over ranks; without a plan every rank holds all."""
        plan = getattr(self.config, "base_model_tp_plan", None) or {}
        cuts = {}
        for name, style in plan.items():
            _, star, inside = str(name).partition("layers.*.")
            if star:
                cut = (
                    "columns"
                    if "colwise" in str(style)
                    else "rows"
                    if "rowwise" in str(style)
                    else ""
                )
                cuts[re.compile(re.escape(inside).replace(r"\*", r"\d+"))] = cut
        return cuts

    def _described(self, rows: list[Layer]) -> CapturedModel:
        model, config = self.model, self.config
        embedding = model.get_input_embeddings().weight
        head = model.get_output_embeddings()
        tied = _is_tied(model)
        self._check_tables(embedding, embedding if tied else head.weight)
        language = _language(model, self.place)
        inside = _parameters(self.layers) + embedding.numel() * (1 if tied else 2)
        mixers = [row.mixer for row in rows if isinstance(row.mixer, Recorded)]
        counts = [m.experts for mixer in mixers for m in mixer.matrices if m.experts]
        if len(set(counts)) > 1:
            raise ConfigError(
                f"{self.path}: its layers have {' and '.join(map(str, sorted(set(counts))))} experts; models "
                f"here have one number of them; {_CURE}"
            )
        return CapturedModel(
            rows=rows,
            hidden=int(config.hidden_size),
            heads=int(getattr(config, "num_attention_heads", 1) or 1),
            vocab=int(embedding.shape[0]),
            tied=tied,
            extra=language - inside,
            experts=max(counts, default=0),
            top_k=self._top_k() if counts else 0,
            vision=_parameters(model) - language,
        )

    def _check_tables(self, *tables: Any) -> None:
        """Embedding and head must be as wide as the layers, which is how they are generated."""
        for table in tables:
            if table.shape[1] != self.config.hidden_size:
                raise ConfigError(
                    f"{self.path}: a table of words is {table.shape[1]:,} wide and the layers are "
                    f"{self.config.hidden_size:,}; projections between them are not understood"
                )

    def _top_k(self) -> int:
        """How many experts a token meets; 0 where the configuration names none."""
        values = (getattr(self.config, name, None) for name in _TOP_K)
        return next((v for v in values if isinstance(v, int) and v > 0), 0)

    def _check_cache(self, rows: list[Layer]) -> None:
        """Layers that look at earlier tokens must keep something of them, or they are an encoder's."""
        mixers = [row.mixer for row in rows if isinstance(row.mixer, Recorded)]
        pairs = [m for m in mixers if m.flops_per_pair > 0]
        if pairs and not any(m.cache or m.fixed for m in mixers):
            raise ConfigError(
                f"{self.path}: nothing of the tokens before is in its cache: its layers are an encoder's, "
                f"or keep it in a way of their own; {_CURE}"
            )

    def _check_single(self, rows: list[Layer], short: _Work, long: _Work, cache: Any) -> None:
        """One more token on top of the cache must do what the two runs say, where pairs are counted.

        Latent attention is run in a plain way there: the matrix that makes keys and values of what is kept
        runs over the whole cache once more. Engines do not do that, and it is not counted.
        """
        ids = self.torch.empty((1, 1), dtype=self.torch.long, device="meta")
        work = _Work()
        with self.torch.no_grad(), _counting(self.torch, work, self.layers):
            self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        for number in range(len(self.layers)):
            per_pair, per_token = _coefficients(short, long, number)
            expected = per_token + per_pair * (SHORT + 1)
            done = work.flops.get(number, 0)
            again = _expanded_again(rows[number], done - expected)
            if (
                per_pair > 0
                and not self._window(number)
                and not again
                and abs(done - expected) > _LOOSE * expected
            ):
                raise ConfigError(
                    f"{self.path}: layer {number} does {done:,} FLOPs for one token on a cache of {SHORT}; "
                    f"{expected:,.0f} were to be expected, so that it is not understood; {_CURE}"
                )

    def _check_backward(self) -> None:
        """Gradients are generated as twice the work of forward, which must be what the model does."""
        ids = self.torch.empty((1, SHORT), dtype=self.torch.long, device="meta")
        forward, backward = _Work(), _Work()
        with _counting(self.torch, forward, []):
            logits = self.model(input_ids=ids, use_cache=False).logits
        with _counting(self.torch, backward, []):
            logits.sum().backward()
        self.model.zero_grad(set_to_none=True)
        times = backward.flops.get(-1, 0) / max(1, forward.flops.get(-1, 0))
        if not _LEAST_BACKWARD < times < _MOST_BACKWARD:
            raise ConfigError(
                f"{self.path}: backward does {times:.2f} times the work of forward, not twice; {_CURE}"
            )


_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk",
          "router_top_k", "num_selected_experts", "moe_top_k", "top_k")  # fmt: skip
"""Names under which configurations say how many experts a token meets."""


def _coefficients(short: _Work, long: _Work, number: int) -> tuple[float, float]:
    """FLOPs of a layer for a pair of tokens, and for a token."""
    first, second = (work.flops.get(number, 0) for work in (short, long))
    per_pair = (second / LONG - first / SHORT) / (LONG - SHORT)
    return per_pair, first / SHORT - per_pair * SHORT


def _expanded_again(row: Layer, more: float) -> bool:
    """Whether work for one token beyond what is expected is one matrix once for every cached token."""
    assert isinstance(row.mixer, Recorded)
    each = more / SHORT
    return any(
        abs(each - 2 * m.inputs * m.outputs) < _LOOSE * each
        for m in row.mixer.matrices
        if not m.experts and each > 0
    )


def _parameters(module: Any) -> int:
    return sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())


def _expert_matrix(name: str, parameter: Any, hidden: int) -> Matrix:
    """Matrices of all experts: what makes them wide comes first, what brings tokens back last."""
    count, one, other = (int(n) for n in parameter.shape)
    back = "down" in name or "output" in name or name.endswith("w2")
    wide = other if one == hidden else one
    inputs, outputs = (wide, hidden) if back else (hidden, wide)
    if {one, other} != {inputs, outputs}:  # experts that work on a smaller token
        inputs, outputs = (one, other) if back else (other, one)
    return Matrix(name=name, inputs=inputs, outputs=outputs, experts=count)


def _cache_elements(cache: Any, number: int, torch: Any) -> int:
    """Elements that a layer's cache holds for one sequence."""
    layers = getattr(cache, "layers", None)
    if layers is None or number >= len(layers):
        return 0
    values = vars(layers[number]).values()
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    tensors += [t for v in values if isinstance(v, dict | list) for t in _tensors(v, torch)]
    return sum(t.numel() for t in {id(t): t for t in tensors if t.is_floating_point()}.values())


def _tensors(values: Any, torch: Any) -> list[Any]:
    inside = values.values() if isinstance(values, dict) else values
    return [t for t in inside if isinstance(t, torch.Tensor)]


@contextmanager
def _counting(torch: Any, work: _Work, layers: Any) -> Iterator[None]:
    """Counts FLOPs of products by the layer that is running."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    scalar = torch.ops.aten._local_scalar_dense.default
    convolved_back = torch.ops.aten.convolution_backward.default

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is scalar and args[0].dtype == torch.bool:
                return True  # "is nothing masked, nothing packed?": plain text has neither
            out = func(*args, **(kwargs or {}))
            count = flop_registry.get(func._overloadpacket)
            if func is convolved_back:
                flops = _convolved_back(*args[:3])
                work.flops[work.current] = work.flops.get(work.current, 0) + flops
            elif count is not None:
                flops = count(*args, **(kwargs or {}), out_val=out)
                work.flops[work.current] = work.flops.get(work.current, 0) + int(flops)
            return out

    hooks = []
    for number, layer in enumerate(layers):
        hooks.append(layer.register_forward_pre_hook(_enter(work, number), with_kwargs=True))
        hooks.append(layer.register_forward_hook(_leave(work)))
    try:
        with Counter():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _convolved_back(grad: Any, _x: Any, weight: Any) -> int:
    """Two products for each of forward; PyTorch's own counter multiplies by the groups once more."""
    return int(2 * 2 * grad.numel() * weight.numel() // weight.shape[0])


def _enter(work: _Work, number: int) -> Any:
    def hook(_module: Any, _args: Any, _kwargs: Any) -> None:
        work.current = number

    return hook


def _leave(work: _Work) -> Any:
    def hook(_module: Any, _args: Any, _out: Any) -> None:
        work.current = -1

    return hook
