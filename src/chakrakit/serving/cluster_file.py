"""A cluster that a file describes: unlike engines or a service, codecs, links that change, and failures.

    engines:                                   # or `service:`
      - {model: llama-3.1-8b, machine: dgx-h100, count: 2}
      - {model: llama-3.1-70b, machine: dgx-h200, tp: 8, options: "vllm{max_num_seqs=64}"}
    router: least
    codecs:
      - {name: fp8, ratio: 2, encode_gbps: 300, decode_gbps: 300}
    link_schedule: [[0, 1], [30, 0.1]]         # from a second on, a factor of the bandwidth
    faults: [[10, 1, 5]]                       # second, engine, seconds that it is down
    rank_faults:                               # of engines with `dp` and `ep`
      - {at_s: 10, rank: 3, tier_gbps: 25, detect_s: 0.5, away_s: 60}

A file is data: a policy, which is a program, is named beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import Document, place_in, read_document, with_choices
from chakrakit.errors import ChakraError, ConfigError
from chakrakit.machines.device import MOST_SECONDS
from chakrakit.operators import WorkingType
from chakrakit.serving.cluster import Role, Router
from chakrakit.serving.fleet import EngineSpec
from chakrakit.serving.links import Codec
from chakrakit.serving.ranks import RankFailure
from chakrakit.serving.service import Service

_HOLDS = "a cluster: `engines` or a `service`, and what goes with them"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file."""


class EngineEntry(_Entry, frozen=True, kw_only=True):
    """Equal engines, as an EngineSpec has them."""

    model: str
    machine: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    role: Role = "whole"
    count: int = 1
    options: str = "vllm"
    devices: list[int] = []
    kv_blocks: int | None = None
    compute: str = "auto"
    dtype: str = "bf16"
    quantization: str = ""


class KindEntry(_Entry, frozen=True, kw_only=True):
    """What items of one kind add to a step: once, and each."""

    seconds: float = 0.0
    per_item: float = 0.0


class ServiceEntry(_Entry, frozen=True, kw_only=True):
    """A service whose steps take a time, more for each item, and more for each kind that is in them.

    In place of times it may name a model that is not over tokens, and a machine.
    """

    model: str = ""
    machine: str = ""
    compute: str = "auto"
    dtype: WorkingType = "bf16"
    seconds: float | None = None
    per_item: float = 0.0
    kinds: dict[int, KindEntry] = {}
    memory: float = 0.0
    item_bytes: float = 0.0
    max_items: int = 64
    max_requests: int = 0
    in_parts: bool = False
    engines: int = 1
    name: str = "service"

    def step_seconds(self) -> Callable[[int, Mapping[int, int]], float]:
        """The time of a step with some items of each kind; kinds without an entry add `per_item` each."""
        usual = KindEntry(per_item=self.per_item)

        def seconds(_items: int, kinds: Mapping[int, int]) -> float:
            parts = ((self.kinds.get(kind, usual), count) for kind, count in kinds.items())
            return (self.seconds or 0.0) + sum(
                kind.seconds + kind.per_item * n for kind, n in parts
            )

        return seconds

    def service(self) -> Service:
        """The service itself."""
        names = ("memory", "item_bytes", "max_items", "max_requests", "in_parts", "engines")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        if bool(self.model and self.machine) == (self.seconds is not None):
            raise ConfigError("a service has `seconds`, or a `model` and a `machine`")
        if self.seconds is not None:
            times = [self.seconds, self.per_item]
            times += [t for kind in self.kinds.values() for t in (kind.seconds, kind.per_item)]
            for time in times:
                if not 0 <= time <= MOST_SECONDS:
                    raise ConfigError(
                        f"a service's time is {time:g} s; give 0 to {MOST_SECONDS:,} s"
                    )
            return Service(self.step_seconds(), name=self.name, **fields)
        fields |= {"compute": self.compute, "dtype": self.dtype}
        return Service.of_model(self.model, self.machine, **fields)


class CodecEntry(_Entry, frozen=True, kw_only=True):
    """A way to encode a cache."""

    name: str
    ratio: float = 1.0
    encode_gbps: float = float("inf")
    decode_gbps: float = float("inf")


class RankFaultEntry(_Entry, frozen=True, kw_only=True):
    """A rank that fails alone, as a RankFailure has it."""

    at_s: float
    rank: int
    tier_gbps: float
    detect_s: float = 0.0
    rebuild_s: float = 0.0
    away_s: float = 0.0


class ClusterFile(_Entry, frozen=True, kw_only=True):
    """All that a file may say."""

    engines: list[EngineEntry] = []
    service: ServiceEntry | None = None
    router: Router = "turn"
    codecs: list[CodecEntry] = []
    link_schedule: list[tuple[float, float]] = []
    store_schedule: list[tuple[float, float]] = []
    faults: list[tuple[float, int, float]] = []
    rank_faults: list[RankFaultEntry] = []


def read_cluster(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings of `serve` that a file describes; those it says nothing of are left out."""
    document = read_document(Path(path), _HOLDS)
    asked = _converted(document)
    if bool(asked.engines) == (asked.service is not None):
        raise document.error((), f"should hold {_HOLDS}; give one of the two")
    parts: dict[str, Any] = {
        "engines": _each(document, "engines", asked.engines, EngineSpec),
        "codecs": _each(document, "codecs", asked.codecs, Codec),
        "rank_faults": _each(document, "rank_faults", asked.rank_faults, RankFailure),
        "service": None if asked.service is None else _service(document, asked.service),
    }
    others = ("router", "link_schedule", "store_schedule", "faults")
    said = {name: getattr(asked, name) for name in others if name in document.content}
    return {**{name: part for name, part in parts.items() if part}, **said}


_ENTRIES: dict[str | int, type[_Entry]] = {
    "engines": EngineEntry,
    "service": ServiceEntry,
    "codecs": CodecEntry,
    "rank_faults": RankFaultEntry,
}


def _converted(document: Document) -> ClusterFile:
    """The content, checked; of a field that there is not, the error names the nearest ones."""
    try:
        return msgspec.convert(document.content, ClusterFile)
    except msgspec.ValidationError as error:
        place = place_in(str(error))
        entry = _ENTRIES.get(place[0], KindEntry) if place else ClusterFile
        names = KindEntry if "kinds" in place else entry
        fields = [field.name for field in msgspec.structs.fields(names)]
        said = with_choices(_with_numbers(str(error)), ClusterFile)
        raise document.converted(said, (), fields) from None


def _with_numbers(error: str) -> str:
    """How kinds are written where they are not by number; msgspec does not say."""
    value, _, where = error.partition(" - ")
    if value.startswith("Expected") and ".kinds" in where:
        return f"{value}; give kinds by number, as in {{1: {{seconds: 0.002}}}} - {where}"
    return error


def _each(
    document: Document, name: str, entries: Sequence[_Entry], kind: Callable[..., Any]
) -> list[Any]:
    """Entries as what they stand for; an error names the line of the entry."""
    made = []
    for place, entry in enumerate(entries):
        try:
            made.append(kind(**msgspec.structs.asdict(entry)))
        except ChakraError as error:
            raise document.error((name, place), str(error)) from None
    return made


def _service(document: Document, entry: ServiceEntry) -> Service:
    try:
        return entry.service()
    except ChakraError as error:
        raise document.error(("service",), str(error)) from None
