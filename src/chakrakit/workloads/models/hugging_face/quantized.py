"""The precision of a model's matrices by their names, as files state it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from chakrakit.errors import ConfigError
from chakrakit.patterns import begins_with, compiled
from chakrakit.workloads.description import Format, Layer, Precision
from chakrakit.workloads.models.hugging_face.modules import HEAD, modules_of

T = TypeVar("T")

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
    matched: list[tuple[Callable[[str], bool], str]] = field(default_factory=list)
    """Formats of modules whose names match; the first that does counts."""
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
        stated = self.stated(module)
        if stated is not None:
            return stated
        if not self.default or self.excluded(module):
            return ""
        return self.experts if routed and self.experts else self.default

    def stated(self, module: str) -> str | None:
        """The format of a module that files speak of by its name; None where they do not."""
        if module in self.named:
            return self.named[module]
        if not self.matched or self.excluded(module):
            return None
        return next((label for matches, label in self.matched if matches(module)), None)

    def add(self, form: Format, label: str = "") -> str:
        """Adds a format and gives its name; of two that differ the second has a number."""
        label = label or form.dtype
        name, number = label, 1
        while self.formats.get(name, form) != form:
            number += 1
            name = f"{label}-{number}"
        self.formats[name] = form
        return name


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
    expressions = [_taken(compiled, text) for text in (*texts, *starred)]
    written = [_taken(begins_with, p[3:]) for p in patterns if p.startswith("re:")]

    def excluded(name: str) -> bool:
        return any(e.match(name) for e in expressions) or any(
            matches(f"{before}{name}")
            for matches in written
            for before in ("", "model.", "model.language_model.", "language_model.model.")
        )

    return excluded


def _taken(make: Callable[[str], T], text: str) -> T:
    try:
        return make(text)
    except ValueError as error:
        raise ConfigError(f"a pattern of modules is not taken: {text:.60}: {error}") from None


# --- the formats of layers ----------------------------------------------------------------------


def precision_of(quantization: Quantization, dtype: str, source: str) -> Precision | None:
    """The precision as a description has it; None where nothing is quantized and no type is stated."""
    if not (quantization.formats or quantization.cache or dtype):
        return None
    head = quantization.of(HEAD) if quantization.head else quantization.stated(HEAD) or ""
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
    named = [kind for m in modules if (kind := quantization.stated(m)) is not None]
    if named:
        return named[0]
    if weight == "moe.router" and not quantization.router:
        return ""
    if any(quantization.excluded(m) for m in modules):
        return ""
    return quantization.of(modules[0], routed=weight.startswith("moe.experts"))
