"""Arguments whose values decide whether a call may be made at all: indices, offsets, masks, shares.

Each has a rule: when values will do, and how to make some that do. A value that is out of bounds ends a
device with an assertion, or is followed without a check; a mask with another count gives another shape.

An index that is known to be in range in every iteration is used as it is computed; any other is taken from
a tensor that the runner made itself. Only what follows from the operators themselves counts, never what was
seen once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Given = dict[str, Any]
"""Arguments of a call by name, with the real tensors."""
Shapes = list[list[int] | None]
"""Recorded shapes of the results; None for those that nobody keeps."""


def count(tensor: Any) -> int:
    """Elements of a tensor."""
    return int(tensor.numel())


@dataclass(frozen=True)
class Want:
    """What must hold of one tensor. `bound` is one more than the largest index, 0 for other kinds."""

    holds: Callable[[Any], bool]
    make: Callable[[Any], Any]
    bound: int = 0


class ValueRules:
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
"""Choices that are too few to tell a crowd from chance."""
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
            wanted = _chosen(given, made, dim)
            if wanted >= 0:
                found["indices", place] = true_in(torch, min(wanted, count(tensor)))
            dim += tensor.dim()
        else:
            size = shape[dim] if dim < len(shape) else 0
            found["indices", place] = index_below(torch, size, wraps=True)
            dim += 1
    return found


def _chosen(given: Given, made: Shapes, dim: int) -> int:
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


_INDEXED = """ index_select gather scatter scatter_ scatter_add scatter_add_ scatter_reduce index_add
           index_add_ index_copy index_copy_ """
_LOSSES = "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward"
_RULES: dict[str, Rule] = {
    "embedding": _rows("indices", "weight"),
    "embedding_dense_backward": _number("indices", "num_weights"),
    "_embedding_bag": _bags,
    "_embedding_bag_dense_backward": _bags_backward,
    **dict.fromkeys(_INDEXED.split(), _along()),
    **dict.fromkeys(["index", "index_put_", "_index_put_impl_"], _indices),
    **dict.fromkeys(_LOSSES.split(), _targets),
    "max_pool2d_with_indices_backward": _plane(2),
    "nonzero": _nonzero,
    "bincount": _bins,
    "_unique2": _distinct,
    "_grouped_mm": _segments,
    "_flash_attention_forward": _packed("cum_seq_q", "cum_seq_k"),
    **dict.fromkeys(
        ["_efficient_attention_forward", "_efficient_attention_backward"],
        _packed("cu_seqlens_q", "cu_seqlens_k"),
    ),
    "multinomial": lambda torch, given, made: {("self", -1): _shares(torch)},
}
"""Operator → what its arguments must hold."""


# --- what is known of integers that operators make -------------------------------------------------

Range = tuple[int, int]
"""Lowest and highest value."""

_COPIES_TEXT = """ clone _to_copy cat stack gather index index_select repeat expand contiguous flip
               constant_pad_nd _unsafe_view alias where masked_fill """
_COPIES = frozenset(_COPIES_TEXT.split())
"""Operators whose integers are all among those they were given, or numbers among their arguments."""


class Ranges:
    """Storage → the range of its integers, as far as it is known at this step."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._known: dict[int, Range] = {}

    def of(self, tensor: Any) -> Range | None:
        """What a tensor's values lie between."""
        return self._known.get(_key(tensor))

    def put(self, tensor: Any, found: Range | None) -> None:
        """A storage was made or filled by the runner itself."""
        if found is None:
            self._known.pop(_key(tensor), None)
        else:
            self._known[_key(tensor)] = found

    def after(self, name: str, given: Given, written: list[Any], results: list[Any]) -> None:
        """A call was made: what it wrote is unknown, what it made may be known."""
        rule = _MAKERS.get(name)
        made = rule(given) if rule is not None else {}
        copied = self._copied(given) if name in _COPIES else None
        inside = {_key(t) for t in _tensors(self._torch, list(given.values()))}
        for tensor in written:
            self._known.pop(_key(tensor), None)
        for place, tensor in enumerate(results):
            if isinstance(tensor, self._torch.Tensor) and _key(tensor) not in inside:
                integers = not (tensor.is_floating_point() or tensor.is_complex())
                self.put(tensor, made.get(place, copied) if integers else None)

    def _copied(self, given: Given) -> Range | None:
        """The hull of all integers among the arguments that values can come from."""
        found: list[Range] = []
        for name, value in given.items():
            if name in ("index", "indices", "condition", "mask"):
                continue
            for tensor in _tensors(self._torch, [value]):
                known = self.of(tensor)
                if known is None:
                    return None
                found.append(known)
            if name in ("value",) and isinstance(value, int | float):
                found.append((int(value), int(value)))
        return (min(f[0] for f in found), max(f[1] for f in found)) if found else None


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _tensors(torch: Any, values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            flat.append(value)
        elif isinstance(value, list | tuple):
            flat += _tensors(torch, list(value))
    return flat


def _place_along(result: int) -> Callable[[Given], dict[int, Range]]:
    """Places along `dim`; of all elements where no dimension is given."""

    def rule(given: Given) -> dict[int, Range]:
        tensor, dim = given["self"], given.get("dim", -1)
        if not isinstance(dim, int) or not tensor.dim():
            return {result: (0, max(count(tensor) - 1, 0))}
        return {result: (0, max(tensor.shape[dim] - 1, 0))}

    return rule


def _place_in_plane(given: Given) -> dict[int, Range]:
    return {1: (0, max(math.prod(int(n) for n in given["self"].shape[-2:]) - 1, 0))}


def _counted(given: Given) -> dict[int, Range]:
    start, end, step = given.get("start", 0), given.get("end", 0), given.get("step", 1)
    if not all(type(v) is int for v in (start, end, step)) or not step:
        return {}
    last = max(len(range(start, end, step)) - 1, 0)
    return {0: (min(start, start + last * step), max(start, start + last * step))}


def _drawn(given: Given) -> dict[int, Range]:
    return {0: (int(given.get("low", 0)), max(int(given["high"]) - 1, 0))}


def _constant(value: int) -> Callable[[Given], dict[int, Range]]:
    return lambda given: {0: (value, value)}


def _filled(given: Given) -> dict[int, Range]:
    value = given.get("fill_value")
    return {0: (value, value)} if type(value) is int else {}


def _remainder(given: Given) -> dict[int, Range]:
    other = given.get("other")
    return {0: (0, other - 1)} if type(other) is int and other > 0 else {}


def _clamped(given: Given) -> dict[int, Range]:
    low, high = given.get("min"), given.get("max")
    return {0: (low, high)} if type(low) is int and type(high) is int and low <= high else {}


_MAKERS: dict[str, Callable[[Given], dict[int, Range]]] = {
    "topk": _place_along(1),
    "sort": _place_along(1),
    "max": _place_along(1),
    "argmax": _place_along(0),
    "argsort": _place_along(0),
    "nonzero": lambda given: {0: (0, max([*given["self"].shape, 1]) - 1)},
    "multinomial": lambda given: {0: (0, max(given["self"].shape[-1] - 1, 0))},
    "randperm": lambda given: {0: (0, max(int(given["n"]) - 1, 0))},
    "arange": _counted,
    "randint": _drawn,
    "zeros": _constant(0),
    "zeros_like": _constant(0),
    "new_zeros": _constant(0),
    "ones": _constant(1),
    "ones_like": _constant(1),
    "full": _filled,
    "full_like": _filled,
    "remainder": _remainder,
    "clamp": _clamped,
    "max_pool2d_with_indices": _place_in_plane,
    "_embedding_bag": lambda given: {1: (0, max(count(given["offsets"]) - 1, 0))},
}
"""Operator → the range of its integer results, by place among them."""
