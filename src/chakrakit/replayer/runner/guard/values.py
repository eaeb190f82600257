"""Arguments whose values decide whether a call may be made at all: indices, offsets, masks, shares.

Each has a rule: when values will do, and how to make some that do. A value that is out of bounds ends a
device with an assertion, or is followed without a check; a mask with another count gives another shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .refusal import Given, count

Shapes = list[list[int] | None]
"""Recorded shapes of the results; None for those that nobody keeps."""


@dataclass(frozen=True)
class Want:
    """What must hold of one tensor. `bound` is one more than the largest index, 0 for other kinds."""

    holds: Callable[[Any], bool]
    make: Callable[[Any], Any]
    bound: int = 0


class Values:
    """The rules, for one PyTorch."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def wanted(self, name: str, given: Given, made: Shapes) -> dict[tuple[str, int], Want]:
        """(argument, place in a list or -1) → what must hold of that tensor."""
        rule = _RULES.get(name)
        if rule is None:
            return {}
        found = rule(self._torch, given, made)
        return {k: w for k, w in found.items() if _tensor(given, *k) is not None}


def _tensor(given: Given, name: str, place: int) -> Any:
    value = given.get(name)
    if place >= 0:
        return value[place] if isinstance(value, list) and place < len(value) else None
    return value if hasattr(value, "numel") else None


Wants = dict[tuple[str, int], Want]
Rule = Callable[[Any, Given, Shapes], Wants]


def index_below(torch: Any, bound: int, *, wraps: bool = False, besides: int | None = None) -> Want:
    """Indices from 0 (or counted from the end) to `bound`, or one number that means none."""
    low = -bound if wraps else 0

    def holds(tensor: Any) -> bool:
        if not count(tensor):
            return True
        fits = (tensor >= low) & (tensor < bound)
        if besides is not None:
            fits = fits | (tensor == besides)
        return bool(fits.all()) and not _is_crowded(torch, tensor, bound)

    def make(tensor: Any) -> Any:
        size = count(tensor)
        if 1 < size <= bound and tensor.dim() == 1:
            # Rows that somebody chose: each once, in order.
            chosen = torch.randperm(bound)[:size].sort().values
        else:
            chosen = torch.randint(0, max(bound, 1), (size,))
        return chosen.view(tuple(tensor.shape)).to(tensor.dtype)

    return Want(holds, make, bound=bound)


def _is_crowded(torch: Any, tensor: Any, bound: int) -> bool:
    """Whether made-up values chose so few of what there is that a kernel would stand in a queue."""
    flat = tensor if 0 not in tensor.stride() else _without_copies(tensor)
    size = count(flat)
    if size < _FEW or bound < 2:
        return False
    most = int(torch.unique(flat, return_counts=True)[1].max())
    return most > _CROWD * max(1, size / bound)


def _without_copies(tensor: Any) -> Any:
    """An expanded tensor as it was before."""
    return tensor[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]


_FEW = 16
_CROWD = 16
"""By how much one choice may be more frequent than an even spread would make it."""


def offsets_into(torch: Any, total: int, *, from_zero: bool, to_end: bool) -> Want:
    """Ends or begins of segments: in order, within `total`."""

    def holds(tensor: Any) -> bool:
        if not count(tensor):
            return True
        flat = tensor.flatten()
        ordered = bool((flat[1:] >= flat[:-1]).all())
        begins = not from_zero or int(flat[0]) == 0
        ends = not to_end or int(flat[-1]) == total
        spread = count(flat) < 2 or total == 0 or int(flat[-1]) > int(flat[0])
        inside = int(flat[0]) >= 0 and int(flat[-1]) <= total
        return ordered and begins and ends and inside and spread

    def make(tensor: Any) -> Any:
        size = count(tensor)
        first = 0 if from_zero else 1
        parts = max(size - 1, 1) if from_zero and to_end else size
        steps = torch.arange(first, first + size, dtype=torch.int64)
        return (steps * total // max(parts, 1)).view(tuple(tensor.shape)).to(tensor.dtype)

    return Want(holds, make)


def true_in(torch: Any, wanted: int) -> Want:
    """A mask, or numbers, of which so many are not 0."""

    def holds(tensor: Any) -> bool:
        return int(torch.count_nonzero(tensor)) == wanted

    def make(tensor: Any) -> Any:
        flat = torch.zeros(count(tensor), dtype=torch.bool)
        flat[torch.randperm(count(tensor))[:wanted]] = True
        return flat.view(tuple(tensor.shape)).to(tensor.dtype)

    return Want(holds, make)


def _between_0_and_1(torch: Any) -> Want:
    def holds(tensor: Any) -> bool:
        return bool(((tensor >= 0) & (tensor <= 1)).all())

    return Want(holds, lambda t: torch.full(tuple(t.shape), 0.5, dtype=t.dtype))


def _shares(torch: Any) -> Want:
    def holds(tensor: Any) -> bool:
        fine = bool((torch.isfinite(tensor) & (tensor >= 0)).all())
        return fine and bool((tensor.sum(-1) > 0).all())

    return Want(holds, lambda t: torch.ones(tuple(t.shape), dtype=t.dtype))


# --- rules ----------------------------------------------------------------------------------------


def _rows(argument: str, table: str) -> Rule:
    return lambda torch, given, made: {
        (argument, -1): index_below(torch, int(given[table].shape[0]))
    }


def _number(argument: str, size: str) -> Rule:
    return lambda torch, given, made: {(argument, -1): index_below(torch, int(given[size]))}


def _along(argument: str = "index") -> Rule:
    def rule(torch: Any, given: Given, made: Shapes) -> Wants:
        own, dim = given["self"], int(given.get("dim") or 0)
        size = int(own.shape[dim]) if own.dim() else 1
        return {(argument, -1): index_below(torch, size)}

    return rule


def _elements(torch: Any, given: Given, made: Shapes) -> Wants:
    return {("index", -1): index_below(torch, count(given["self"]), wraps=True)}


def _targets(torch: Any, given: Given, made: Shapes) -> Wants:
    scores = given["self"]
    classes = int(scores.shape[1] if scores.dim() > 1 else scores.shape[0])
    besides = int(given.get("ignore_index", -100))
    return {("target", -1): index_below(torch, classes, besides=besides)}


def _plane(dimensions: int) -> Rule:
    def rule(torch: Any, given: Given, made: Shapes) -> Wants:
        size = math.prod(int(n) for n in given["self"].shape[-dimensions:])
        return {("indices", -1): index_below(torch, size)}

    return rule


def _indices(torch: Any, given: Given, made: Shapes) -> Wants:
    """One index per dimension; a mask stands for as many dimensions as it has."""
    found: Wants = {}
    dim = 0
    shape = [int(n) for n in given["self"].shape]
    for place, tensor in enumerate(given.get("indices") or []):
        if tensor is None:
            dim += 1
        elif tensor.dtype in (torch.bool, torch.uint8):
            wanted = _counted(given, made, dim)
            if wanted >= 0:
                found["indices", place] = true_in(torch, min(wanted, count(tensor)))
            dim += tensor.dim()
        else:
            size = shape[dim] if dim < len(shape) else 0
            found["indices", place] = index_below(torch, size, wraps=True)
            dim += 1
    return found


def _counted(given: Given, made: Shapes, dim: int) -> int:
    """How many a mask must choose: as the result or the values to put say; -1 if nobody says."""
    values = given.get("values")
    if values is not None:
        shape = [int(n) for n in values.shape]
        return shape[0] if len(shape) > 0 and shape[0] > 1 else -1
    shape = _first(made)
    return shape[dim] if dim < len(shape) else -1


def _first(made: Shapes) -> list[int]:
    """The shape of the first result, empty if nobody says."""
    return made[0] or [] if made else []


def _nonzero(torch: Any, given: Given, made: Shapes) -> Wants:
    shape = _first(made)
    return {("self", -1): true_in(torch, min(shape[0], count(given["self"])))} if shape else {}


def _selected(torch: Any, given: Given, made: Shapes) -> Wants:
    shape = _first(made)
    return {("mask", -1): true_in(torch, min(shape[0], count(given["mask"])))} if shape else {}


def _scattered_by_mask(torch: Any, given: Given, made: Shapes) -> Wants:
    most = min(count(given["source"]), count(given["mask"]))
    want = true_in(torch, most)

    def fits(tensor: Any) -> bool:
        return int(torch.count_nonzero(tensor)) <= most

    return {("mask", -1): Want(fits, want.make)}


def _repeated(torch: Any, given: Given, made: Shapes) -> Wants:
    if not _first(made):
        return {}
    total = _first(made)[0]

    def holds(tensor: Any) -> bool:
        return bool((tensor >= 0).all()) and int(tensor.sum()) == total

    def make(tensor: Any) -> Any:
        size = max(count(tensor), 1)
        each = torch.full((size,), total // size, dtype=tensor.dtype)
        each[: total % size] += 1
        return each.view(tuple(tensor.shape))

    return {("repeats", -1): Want(holds, make)}


def _bins(torch: Any, given: Given, made: Shapes) -> Wants:
    if not _first(made):
        return {}
    size = max(_first(made)[0], 1)
    below = index_below(torch, size)

    def holds(tensor: Any) -> bool:
        longest = int(tensor.max()) + 1 if count(tensor) else 0
        return below.holds(tensor) and max(longest, int(given.get("minlength") or 0)) == size

    def make(tensor: Any) -> Any:
        found = torch.randint(0, size, tuple(tensor.shape)).to(tensor.dtype)
        found.view(-1)[:1] = size - 1
        return found

    return {("self", -1): Want(holds, make)}


def _distinct(torch: Any, given: Given, made: Shapes) -> Wants:
    wanted = _first(made)[0] if _first(made) else 0
    if not 0 < wanted <= count(given["self"]):
        return {}

    def holds(tensor: Any) -> bool:
        return len(torch.unique(tensor)) == wanted

    def make(tensor: Any) -> Any:
        numbers = torch.arange(count(tensor)) % wanted
        return numbers.view(tuple(tensor.shape)).to(tensor.dtype)

    return {("self", -1): Want(holds, make)}


def _bags(torch: Any, given: Given, made: Shapes) -> Wants:
    rows = index_below(torch, int(given["weight"].shape[0]))
    last = bool(given.get("include_last_offset"))
    ends = offsets_into(torch, count(given["indices"]), from_zero=True, to_end=last)
    return {("indices", -1): rows, ("offsets", -1): ends}


def _bags_backward(torch: Any, given: Given, made: Shapes) -> Wants:
    bags = int(given["grad"].shape[0])
    return {
        ("indices", -1): index_below(torch, int(given["num_weights"])),
        ("offset2bag", -1): index_below(torch, bags),
    }


def _segments(torch: Any, given: Given, made: Shapes) -> Wants:
    """Grouped products: where each group's rows, or columns, end."""
    own, other = given.get("self", given.get("mat_a")), given.get("mat2", given.get("mat_b"))
    if own is None or other is None:
        return {}
    total = int(own.shape[0]) if own.dim() == 2 and other.dim() == 3 else int(other.shape[-1])
    if own.dim() == 2 and other.dim() == 2:
        total = int(own.shape[-1])
    return {("offs", -1): offsets_into(torch, total, from_zero=False, to_end=True)}


def _packed(query: str, key: str) -> Rule:
    def rule(torch: Any, given: Given, made: Shapes) -> Wants:
        found: Wants = {}
        for name, tensor in ((query, given["query"]), (key, given["key"])):
            shape = [int(n) for n in tensor.shape]
            total = shape[0] * shape[1] if len(shape) == 4 else shape[0]
            found[name, -1] = offsets_into(torch, total, from_zero=True, to_end=True)
        return found

    return rule


_FLASH = _packed("cum_seq_q", "cum_seq_k")
_EFFICIENT = _packed("cu_seqlens_q", "cu_seqlens_k")

_RULES: dict[str, Rule] = {
    "embedding": _rows("indices", "weight"),
    "embedding_renorm": _rows("indices", "self"),
    "embedding_renorm_": _rows("indices", "self"),
    "embedding_dense_backward": _number("indices", "num_weights"),
    "_embedding_bag": _bags,
    "_embedding_bag_forward_only": _bags,
    "_embedding_bag_dense_backward": _bags_backward,
    **dict.fromkeys(
        [
            "index_select",
            "gather",
            "scatter",
            "scatter_",
            "scatter_add",
            "scatter_add_",
            "scatter_reduce",
            "scatter_reduce_",
            "index_add",
            "index_add_",
            "index_copy",
            "index_copy_",
            "index_fill",
            "index_fill_",
            "index_reduce",
            "index_reduce_",
        ],
        _along(),
    ),
    **dict.fromkeys(
        [
            "index",
            "index_put",
            "index_put_",
            "_index_put_impl_",
            "_unsafe_index",
            "_unsafe_index_put",
        ],
        _indices,
    ),
    **dict.fromkeys(["take", "put", "put_"], _elements),
    **dict.fromkeys(
        ["nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"],
        _targets,
    ),
    "max_pool2d_with_indices_backward": _plane(2),
    "max_pool3d_with_indices_backward": _plane(3),
    "adaptive_max_pool2d_backward": _plane(2),
    "adaptive_max_pool3d_backward": _plane(3),
    "nonzero": _nonzero,
    "masked_select": _selected,
    "masked_scatter": _scattered_by_mask,
    "masked_scatter_": _scattered_by_mask,
    "repeat_interleave": _repeated,
    "bincount": _bins,
    "_unique2": _distinct,
    "_grouped_mm": _segments,
    "_scaled_grouped_mm": _segments,
    "_scaled_grouped_mm_v2": _segments,
    "_flash_attention_forward": _FLASH,
    "_flash_attention_backward": _FLASH,
    "_efficient_attention_forward": _EFFICIENT,
    "_efficient_attention_backward": _EFFICIENT,
    "multinomial": lambda torch, given, made: {("self", -1): _shares(torch)},
    "binary_cross_entropy": lambda torch, given, made: {
        (name, -1): _between_0_and_1(torch) for name in ("self", "target")
    },
    "bernoulli": lambda torch, given, made: {("self", -1): _between_0_and_1(torch)},
    "bernoulli_": lambda torch, given, made: {("p", -1): _between_0_and_1(torch)},
}
"""Operator → what its arguments must hold."""
