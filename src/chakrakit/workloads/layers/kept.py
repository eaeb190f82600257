"""What a layer keeps of the tokens it has seen: keys and values, or a state of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from chakrakit.operators import element_bytes
from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    Decoder,
    DeltaNet,
    Index,
    LatentAttention,
    Mixer,
    Recorded,
    StateSpace,
    Step,
    layer_rows,
)
from chakrakit.workloads.layers.attention import ALL, Reach

STATE_DTYPE = "fp32"
"""Recurrences of delta rules are kept in full precision: their errors add up over a sequence."""

SCALED_TOGETHER = 128
"""Elements of a key in eight bits that have one scale, as DeepSeek's indexer keeps them."""


class CachedKeys(NamedTuple):
    """Cached keys of one kind: which of them queries meet, and bytes of each on one rank."""

    reach: Reach
    bytes: float


@dataclass(frozen=True)
class Kept:
    """What one layer keeps on one rank for each sequence."""

    keys: tuple[CachedKeys, ...] = ()
    state: float = 0.0
    """Bytes that do not grow with the sequence."""

    def bytes(self, tokens: int) -> float:
        """Bytes for a sequence of so many tokens."""
        return self.state + sum(float(k.reach.held(tokens)) * k.bytes for k in self.keys)

    @property
    def per_token(self) -> float:
        """Bytes that every further token adds, however long the sequence is."""
        return sum(k.bytes / k.reach.stride for k in self.keys if grows(k.reach))

    @property
    def per_sequence(self) -> float:
        """Bytes that a long sequence has besides those that grow: windows and states."""
        windows = (float(k.reach.held(1 << 40)) * k.bytes for k in self.keys if not grows(k.reach))
        return self.state + sum(windows)


def grows(reach: Reach) -> bool:
    """Whether ever more keys are kept as a sequence gets longer."""
    return reach.sparse or not (reach.most or reach.chunk)


def reach_of(mixer: Attention) -> Reach:
    """Which keys the queries of grouped attention meet."""
    if mixer.index:
        return Reach(mixer.index.most, sparse=True)
    return Reach(mixer.window, chunk=mixer.chunk)


def caches_of(model: Decoder, tp: int, step: Step) -> list[Kept]:
    """What each layer of a model keeps on one rank, in the element type of its cache."""
    kinds, rows = layer_rows(model)
    cache = step.cache_dtype or (model.precision.cache if model.precision else "") or step.dtype
    by_kind = {n: kept(k.mixer, tp, element_bytes(cache), step.dtype) for n, k in kinds.items()}
    return [by_kind[name] for name in rows]


def kept(mixer: Mixer | None, tp: int, cached_bytes: float, dtype: str) -> Kept:
    """What a layer keeps under `tp`, with keys of so many bytes an element and all else in `dtype`."""
    match mixer:
        case Attention():
            return _keys(mixer, tp, cached_bytes)
        case LatentAttention():
            reach = Reach(mixer.index.most, sparse=True) if mixer.index else ALL
            latent = CachedKeys(reach, (mixer.kv_lora + mixer.rope_dim) * cached_bytes)
            return Kept((latent, *_index(mixer.index, ALL, cached_bytes)))
        case CompressedAttention():
            return _compressed(mixer, cached_bytes)
        case DeltaNet():
            size = mixer.value_heads * mixer.key_dim * mixer.value_dim * element_bytes(STATE_DTYPE)
            channels = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
            return Kept(state=(size + _tail(mixer.kernel, channels, dtype)) / tp)
        case StateSpace():
            state_bytes = element_bytes(mixer.state_dtype or dtype)
            size = mixer.heads * mixer.head_dim * mixer.state * state_bytes
            channels = mixer.heads * mixer.head_dim + 2 * mixer.groups * mixer.state
            return Kept(state=(size + _tail(mixer.kernel, channels, dtype)) / tp)
        case Recorded():
            cut = tp if any(m.cut for m in mixer.matrices) else 1
            keys = CachedKeys(Reach(mixer.window), mixer.cache * cached_bytes / cut)
            state = mixer.fixed * element_bytes(dtype) / cut
            return Kept((keys,) if mixer.cache else (), state)
    return Kept()


def _keys(mixer: Attention, tp: int, cached_bytes: float) -> Kept:
    if not mixer.own_keys:
        return Kept()
    heads = max(1, mixer.kv_heads / tp)  # ranks beyond the heads hold copies
    width = mixer.head_dim + (mixer.value_dim or mixer.head_dim)
    keys = CachedKeys(reach_of(mixer), heads * width * cached_bytes)
    return Kept((keys, *_index(mixer.index, ALL, cached_bytes)))


def _index(index: Index | None, reach: Reach, cached_bytes: float) -> list[CachedKeys]:
    """The keys of an index, whole on every rank; those of a type of its own have a scale for each block."""
    if index is None:
        return []
    if index.dtype:
        blocks = -(-index.dim // SCALED_TOGETHER)
        size = index.dim * element_bytes(index.dtype) + blocks * element_bytes("fp32")
        return [CachedKeys(reach, size)]
    return [CachedKeys(reach, index.dim * cached_bytes)]


def _compressed(mixer: CompressedAttention, cached_bytes: float) -> Kept:
    """Keys that are values too, of the window and of entries; and the index's, of entries."""
    keys = [CachedKeys(Reach(mixer.window), mixer.head_dim * cached_bytes)]
    if mixer.ratio:
        most = mixer.index.most if mixer.index else 0
        reach = Reach(most, mixer.ratio, sparse=bool(mixer.index))
        keys.append(CachedKeys(reach, mixer.head_dim * cached_bytes))
    return Kept((*keys, *_index(mixer.index, Reach(stride=mixer.ratio), cached_bytes)))


def _tail(kernel: int, channels: int, dtype: str) -> float:
    """The last inputs of a convolution, which the next token needs."""
    return (kernel - 1) * channels * element_bytes(dtype)
