"""A model that transformers builds on the meta device and that is run there.

Nothing is computed: a decoder runs forward at two lengths with its cache, once more for a single token on
top of it, and backward; what each layer did tells its work for a token and for a pair of tokens, and what
it keeps. Of layers that are built alike one is run. Experts are not run, as which of them a token meets
depends on values; they count as routed. Encoders have no cache, and encoders with a decoder run with two
lengths of each.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Layer, Recorded
from chakrakit.workloads.models.hugging_face.captured_layers import (
    CapturedLayers,
    cache_elements,
    layer_list,
    parameters_of,
)
from chakrakit.workloads.models.hugging_face.keys import Keys
from chakrakit.workloads.models.hugging_face.layer_runs import LayerWork, counting, twins_left_out
from chakrakit.workloads.models.hugging_face.meta_device import (
    CURE,
    built,
    configuration,
    libraries,
    quiet,
    takes_text_alone,
    unrunnable,
    whole,
)

SHORT, LONG = 128, 256
"""Tokens of the two runs: multiples of the chunks in which recurrences work."""
_CACHES = ("past_key_values", "cache_params")
"""What models call their cache; those without attention keep states under the second name."""
_LOOSE = 0.02
"""Part by which the work for a single token may differ, whose attention some models run in another way."""
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
    kv_heads: int
    vocab: int
    tied: bool
    extra: int
    """Parameters outside of layers, embedding and head."""
    experts: int
    top_k: int
    vision: int
    """Parameters that are not the language model's."""
    causal: bool = True
    """Whether tokens meet earlier ones alone; else there is nothing to generate from a cache."""


def captured(keys: Keys, path: Path) -> CapturedModel:
    """The model of a configuration, as transformers builds it; a ConfigError says what it cannot do."""
    torch, transformers = libraries(keys.word("model_type"))
    config = configuration(transformers, keys, path)
    named = (keys.words("architectures") or [""])[0]
    with quiet(transformers):
        try:
            return _captured(torch, transformers, config, named, path)
        except Exception as error:  # the model's own code may raise anything
            raise unrunnable(transformers, path, error) from None


def _captured(torch: Any, transformers: Any, config: Any, named: str, path: Path) -> CapturedModel:
    try:
        model = built(torch, transformers, config, named)
        described = _described(torch, model, config, path)
    except RuntimeError as error:
        if not re.search("scalar type|dtype", str(error)):
            raise
        model = built(torch, transformers, config, named, torch.float32)
        described = _described(torch, model, config, path)
    if takes_text_alone(config):
        return replace(described, extra=described.extra + described.vision, vision=0)
    return _with_rest(described, model, whole(torch, transformers, config, named), path)


def _described(torch: Any, model: Any, config: Any, path: Path) -> CapturedModel:
    if model.main_input_name != "input_ids":
        raise ConfigError(
            f"{path}: {type(model).__name__} reads {model.main_input_name}, and models here read words; "
            f"{CURE}"
        )
    runs = _TwoStacks if model.config.is_encoder_decoder else _OneStack
    return runs(torch, model, config, path).description()


def _with_rest(described: CapturedModel, text: Any, model: Any, path: Path) -> CapturedModel:
    """The text of a model with everything beside it: all parameters are those of the whole."""
    tied = _is_tied(model)
    language = parameters_of(text) - described.vision
    table = text.get_input_embeddings().weight.numel()
    language += table * (described.tied - tied)
    beside = parameters_of(model) - language
    if beside < 0:
        raise ConfigError(
            f"{path}: {type(model).__name__} has fewer parameters than its text alone; {CURE}"
        )
    return replace(described, vision=beside, tied=tied)


def beside_text(keys: Keys, path: Path) -> tuple[int, bool]:
    """Parameters of a model that are not its language model's, and whether its head is its embedding."""
    torch, transformers = libraries(keys.word("model_type"))
    config = configuration(transformers, keys, path)
    with quiet(transformers):
        try:
            model = whole(torch, transformers, config)
            depth = config.get_text_config().num_hidden_layers
            place, _ = layer_list(torch, model, depth, path)
            return parameters_of(model) - _language(model, place), _is_tied(model)
        except Exception as error:  # the model's own code may raise anything
            raise unrunnable(transformers, path, error) from None


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
    """What one stack and two have in common."""

    def __init__(self, torch: Any, model: Any, config: Any, path: Path) -> None:
        self.torch, self.model, self.path = torch, model, path
        self.config = config.get_text_config()
        self.words, self.tied = self._tables()

    def ids(self, tokens: int) -> Any:
        """Words of one sequence, without values."""
        return self.torch.empty((1, tokens), dtype=self.torch.long, device="meta")

    def _tables(self) -> tuple[Any, bool]:
        """The table of words, and whether the head is that table too.

        Embedding and head must be as wide as the layers, which is how they are generated.
        """
        embedding = self.model.get_input_embeddings().weight
        head = self.model.get_output_embeddings()
        if head is None:
            raise ConfigError(
                f"{self.path}: {type(self.model).__name__} has no head over words; name the class that "
                "has one under architectures, such as ...ForCausalLM or ...ForMaskedLM"
            )
        tied = _is_tied(self.model)
        for table in (embedding, embedding if tied else head.weight):
            if table.shape[1] != self.config.hidden_size:
                raise ConfigError(
                    f"{self.path}: a table of words is {table.shape[1]:,} wide and the layers are "
                    f"{self.config.hidden_size:,}; projections between them are not understood; {CURE}"
                )
        return embedding, tied

    def recorded(
        self, layers: CapturedLayers, number: int, met: set[int], pair: float, token: float
    ) -> Recorded:
        """A layer from its work for a pair of tokens and for a token, without what it keeps."""
        matrices = layers.matrices(number, met)
        plain = sum(2 * m.inputs * m.outputs for m in matrices if not m.experts)
        if token < plain * (1 - _SLACK):
            raise ConfigError(
                f"{self.path}: layer {number} computes {token:,.0f} FLOPs for a token and its matrices "
                f"say {plain:,}; what it does with them is not understood; {CURE}"
            )
        counted = sum(m.inputs * m.outputs * max(1, m.experts) for m in matrices if not m.tied)
        return Recorded(
            matrices=matrices,
            vectors=layers.own_parameters(number) - counted,
            flops_per_pair=max(0.0, pair),
            flops_per_token=max(0.0, token - plain),
            window=layers.window(number),
        )

    def described(self, stacks: list[CapturedLayers], rows: list[Layer]) -> CapturedModel:
        """The model of these rows."""
        language = (
            parameters_of(self.model) if len(stacks) > 1 else _language(self.model, stacks[0].place)
        )
        in_layers = sum(parameters_of(stack.layers) for stack in stacks)
        mixers = [row.mixer for row in rows if isinstance(row.mixer, Recorded)]
        counts = {m.experts for mixer in mixers for m in mixer.matrices if m.experts}
        if len(counts) > 1:
            raise ConfigError(
                f"{self.path}: its layers have {' and '.join(map(str, sorted(counts)))} experts; models "
                f"here have one number of them; {CURE}"
            )
        heads = int(getattr(self.config, "num_attention_heads", 1) or 1)
        return CapturedModel(
            rows=rows,
            hidden=int(self.config.hidden_size),
            heads=heads,
            kv_heads=int(getattr(self.config, "num_key_value_heads", 0) or heads),
            vocab=int(self.words.shape[0]),
            tied=self.tied,
            extra=language - in_layers - self.words.numel() * (1 if self.tied else 2),
            experts=max(counts, default=0),
            top_k=stacks[0].top_k if counts else 0,
            vision=parameters_of(self.model) - language,
        )

    def check_backward(self, **inputs: Any) -> None:
        """Gradients are generated as twice the work of forward, which must be what the model does."""
        forward, backward = LayerWork(), LayerWork()
        with counting(self.torch, forward, []):
            logits = self.model(**inputs, use_cache=False).logits
        with counting(self.torch, backward, []):
            logits.sum().backward()
        self.model.zero_grad(set_to_none=True)
        times = backward.flops.get(-1, 0) / max(1, forward.flops.get(-1, 0))
        if not _LEAST_BACKWARD < times < _MOST_BACKWARD:
            raise ConfigError(
                f"{self.path}: backward does {times:.2f} times the work of forward, not twice; {CURE}"
            )


class _OneStack(_Capture):
    """A decoder or an encoder, run a few times."""

    def __init__(self, torch: Any, model: Any, config: Any, path: Path) -> None:
        super().__init__(torch, model, config, path)
        self.stack = CapturedLayers(torch, model, self.config, path)
        self._cache = _CACHES[0]

    def description(self) -> CapturedModel:
        """Everything that the runs tell."""
        self.stack.leave_out_experts()
        short, cache = self._run(SHORT)
        long, longer = self._run(LONG)
        rows = [self._layer(i, short, long, cache, longer) for i in self.stack.alike]
        causal = self._keeps_what_it_meets(rows)
        if causal:
            self._check_single(rows, short, long, cache)  # which adds to the cache
        with twins_left_out(self.torch, LayerWork(), self.stack.layers, self.stack.alike):
            self.check_backward(input_ids=self.ids(SHORT))
        return replace(self.described([self.stack], rows), causal=causal)

    def _run(self, tokens: int, cache: Any = None) -> tuple[LayerWork, Any]:
        work = LayerWork()
        more = {} if cache is None else {self._cache: cache}
        stack = self.stack
        with self.torch.no_grad(), counting(self.torch, work, stack.layers, stack.alike):
            out = self.model(input_ids=self.ids(tokens), use_cache=True, **more)
        self._cache = next((n for n in _CACHES if getattr(out, n, None) is not None), _CACHES[0])
        return work, getattr(out, self._cache, None)

    def _layer(
        self, number: int, short: LayerWork, long: LayerWork, cache: Any, longer: Any
    ) -> Layer:
        pair, token = _coefficients(short, long, number)
        mixer = self.recorded(self.stack, number, short.met, pair, token)
        repeated = self.stack.repeated(number, longer)
        elements = [cache_elements(self.torch, c, number) / repeated for c in (cache, longer)]
        grown = (elements[1] - elements[0]) / (LONG - SHORT)
        fixed = round(elements[0] - grown * SHORT)
        return Layer(mixer=mixer.replace(cache=round(grown), fixed=fixed))

    def _keeps_what_it_meets(self, rows: list[Layer]) -> bool:
        """Whether layers that look at other tokens keep something of them; an encoder's do not."""
        mixers = [row.mixer for row in rows if isinstance(row.mixer, Recorded)]
        pairs = [m for m in mixers if m.flops_per_pair > 0]
        if not pairs or any(m.cache or m.fixed for m in mixers):
            return True
        if not fills_in_words(self.config):
            raise ConfigError(
                f"{self.path}: nothing of the tokens before is in its cache: it keeps them in a way of its "
                f"own; {CURE}"
            )
        return False

    def _check_single(
        self, rows: list[Layer], short: LayerWork, long: LayerWork, cache: Any
    ) -> None:
        """One more token on top of the cache must do what the two runs say, where pairs are counted.

        Latent attention is run in a plain way there: the matrix that makes keys and values of what is kept
        runs over the whole cache once more. Engines do not do that, and it is not counted. A recurrence
        beside attention works in chunks on a prompt, which is more than a token at a time.
        """
        work, _ = self._run(1, cache)
        for number in sorted(set(self.stack.alike)):
            mixer = rows[number].mixer
            assert isinstance(mixer, Recorded)
            pair, token = _coefficients(short, long, number)
            expected = token + pair * (SHORT + 1)
            done = work.flops.get(number, 0)
            understood = (
                pair <= 0
                or mixer.window
                or (mixer.fixed and done < expected)
                or _expanded_again(mixer, done - expected)
                or abs(done - expected) <= _LOOSE * expected
            )
            if not understood:
                raise ConfigError(
                    f"{self.path}: layer {number} does {done:,} FLOPs for one token on a cache of {SHORT}; "
                    f"{expected:,.0f} were to be expected, so that it is not understood; {CURE}"
                )


class _TwoStacks(_Capture):
    """An encoder with a decoder that looks at it; a step has as many tokens on both sides."""

    def __init__(self, torch: Any, model: Any, config: Any, path: Path) -> None:
        super().__init__(torch, model, config, path)
        parts = (model.get_encoder(), model.get_decoder())
        depths = (_depth(config, "encoder"), _depth(config, "decoder"))
        self.stacks = [
            CapturedLayers(torch, part, self.config, path, depth)
            for part, depth in zip(parts, depths, strict=True)
        ]

    def description(self) -> CapturedModel:
        """Everything that runs with two lengths on each side tell."""
        for stack in self.stacks:
            stack.leave_out_experts()
        lengths = [(d, e) for d in (SHORT, LONG) for e in (SHORT, LONG)]
        works = {(d, e): self._run(d, e) for d, e in lengths}
        encoder, decoder = self.stacks
        rows = [self._encoder_layer(i, works) for i in encoder.alike]
        rows += [self._decoder_layer(i, works) for i in decoder.alike]
        alike, layers = self._numbered()
        with twins_left_out(self.torch, LayerWork(), layers, alike):
            self.check_backward(input_ids=self.ids(SHORT), decoder_input_ids=self.ids(SHORT))
        return replace(self.described(self.stacks, rows), causal=False)

    def _numbered(self) -> tuple[list[int], list[Any]]:
        """Twins and layers of both stacks, the decoder's numbers after the encoder's."""
        encoder, decoder = self.stacks
        alike = [*encoder.alike, *(len(encoder) + number for number in decoder.alike)]
        return alike, [*encoder.layers, *decoder.layers]

    def _run(self, decoded: int, encoded: int) -> LayerWork:
        work = LayerWork()
        alike, layers = self._numbered()
        with self.torch.no_grad(), counting(self.torch, work, layers, alike):
            self.model(
                input_ids=self.ids(encoded), decoder_input_ids=self.ids(decoded), use_cache=False
            )
        return work

    def _encoder_layer(self, number: int, works: dict[tuple[int, int], LayerWork]) -> Layer:
        short, long = works[SHORT, SHORT], works[SHORT, LONG]
        pair, token = _coefficients(short, long, number)
        return Layer(mixer=self.recorded(self.stacks[0], number, short.met, pair, token))

    def _decoder_layer(self, number: int, works: dict[tuple[int, int], LayerWork]) -> Layer:
        """Work of D tokens that look at E of the encoder: aD + bD² + cDE + dE, of D² the earlier half."""
        place = len(self.stacks[0]) + number
        done = {lengths: work.flops.get(place, 0) for lengths, work in works.items()}
        rise = [(done[d, LONG] - done[d, SHORT]) / (LONG - SHORT) for d in (SHORT, LONG)]
        crossed = (rise[1] - rise[0]) / (LONG - SHORT)
        encoded = rise[0] - crossed * SHORT
        own = [done[d, SHORT] - (encoded + crossed * d) * SHORT for d in (SHORT, LONG)]
        square = (own[1] / LONG - own[0] / SHORT) / (LONG - SHORT)
        token = own[0] / SHORT - square * SHORT + encoded
        met = works[SHORT, SHORT].met
        pair = square / 2 + crossed
        return Layer(mixer=self.recorded(self.stacks[1], number, met, pair, token))


def fills_in_words(config: Any) -> bool:
    """Whether a type of model is one that fills in words that are left out, looking both ways."""
    names = importlib.import_module("transformers.models.auto.modeling_auto")
    return config.model_type in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _depth(config: Any, side: str) -> int | None:
    """Layers of one side, as configurations call them."""
    names = {
        "encoder": ("encoder_layers", "num_encoder_layers", "num_layers"),
        "decoder": ("decoder_layers", "num_decoder_layers"),
    }
    counts = (getattr(config, n, None) for n in (*names[side], "num_hidden_layers"))
    return next((n for n in counts if isinstance(n, int)), None)


def _coefficients(short: LayerWork, long: LayerWork, number: int) -> tuple[float, float]:
    """FLOPs of a layer for a pair of tokens, and for a token."""
    first, second = (work.flops.get(number, 0) for work in (short, long))
    per_pair = (second / LONG - first / SHORT) / (LONG - SHORT)
    return per_pair, first / SHORT - per_pair * SHORT


def _expanded_again(mixer: Recorded, more: float) -> bool:
    """Whether what one token does beyond its due is matrices of one size, once for every cached token."""
    each = more / SHORT
    sizes = Counter(2 * m.inputs * m.outputs for m in mixer.matrices if not m.experts)
    return any(
        abs(each - times * size) < _LOOSE * each
        for size, count in sizes.items()
        for times in range(1, count + 1)
        if each > 0
    )
