"""Counted kernels: a small implementation in NumPy, run under a counter of operations and bytes.

What it counts, scaled to the size that is meant, becomes a node: sorting, sparse products, stencils and
searches get the time that a stated device needs for them at least, instead of an opinion. Every call of NumPy
counts as a kernel of its own that reads its inputs from memory and writes its results there; views are free.
What Python computes with single numbers, and what becomes of an array after `np.asarray`, is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.errors import ConfigError


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What a function computed and moved; more of it with `scaled`."""

    operations: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    calls: int = 0

    @property
    def bytes(self) -> float:
        """All that was moved."""
        return self.read_bytes + self.written_bytes

    def scaled(self, operations: float, moved: float | None = None) -> Count:
        """The count of a larger problem: so many times the operations, and the bytes (by default as many)."""
        more = operations if moved is None else moved
        if not (0 <= operations < math.inf and 0 <= more < math.inf):
            raise ConfigError(f"scaled by {operations} and {more}; give factors of 0 or more")
        return Count(
            operations=self.operations * operations,
            read_bytes=self.read_bytes * more,
            written_bytes=self.written_bytes * more,
            calls=self.calls,
        )

    def node(self) -> dict[str, Any]:
        """The attributes of a compute node that does this: `builder.comp("sort", **count.node())`."""
        return {
            "num_ops": round(self.operations),
            "tensor_size": round(self.bytes),
            "op_type": "vector",
        }


class _Tally:
    """Sums while a function runs."""

    def __init__(self) -> None:
        self.operations = self.read = self.written = 0.0
        self.calls = 0

    def add(self, operations: float, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
        self.calls += 1
        self.operations += operations
        self.read += sum(_held_bytes(a) for a in inputs if isinstance(a, np.ndarray))
        self.written += sum(a.nbytes for a in outputs if isinstance(a, np.ndarray))

    def count(self) -> Count:
        return Count(
            operations=self.operations,
            read_bytes=self.read,
            written_bytes=self.written,
            calls=self.calls,
        )


def _held_bytes(array: NDArray[Any]) -> int:
    """What an array takes in memory: windows over another, and repeated elements, lie there once."""
    steps = zip(array.shape, array.strides, strict=True)
    extent = sum((side - 1) * abs(stride) for side, stride in steps) + array.itemsize
    return min(array.nbytes, extent) if array.size else 0


class CountedArray(np.ndarray[Any, Any]):
    """An array whose uses are counted; functions see it as any other."""

    tally: _Tally

    def __array_finalize__(self, source: Any) -> None:
        self.tally = getattr(source, "tally", None) or _Tally()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        plain = [_plain(x) for x in inputs]
        if "out" in named:
            named["out"] = tuple(_plain(x) for x in named["out"])
        result = getattr(ufunc, method)(*plain, **{k: _plain(v) for k, v in named.items()})
        outputs = result if isinstance(result, tuple) else (result,)
        if method == "at":
            outputs = (plain[0][plain[1]],)
        self.tally.add(_ufunc_operations(ufunc, method, plain, outputs), plain, outputs)
        return _wrapped(result, self.tally)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain_args, plain_kwargs = _plain(args), _plain(kwargs)
        result = function(*plain_args, **plain_kwargs)
        inputs = [*_arrays(plain_args), *_arrays(plain_kwargs)]
        outputs = [a for a in _arrays(result) if not any(np.shares_memory(a, i) for i in inputs)]
        if outputs or not isinstance(result, np.ndarray):  # else it is a view
            operations = _function_operations(function, plain_args, plain_kwargs, inputs, outputs)
            self.tally.add(operations, inputs, outputs)
        return _wrapped(result, self.tally)

    def __getitem__(self, index: Any) -> Any:
        whole = _plain(self)
        plain = whole[_plain(index)]
        if isinstance(plain, np.ndarray) and not np.shares_memory(plain, whole):
            self.tally.add(0.0, [plain, *_arrays(_plain(index))], [plain])  # a gather
        elif not isinstance(plain, np.ndarray):
            self.tally.add(0.0, [np.asarray(plain)], [])
        return _wrapped(plain, self.tally)

    def __setitem__(self, index: Any, value: Any) -> None:
        target, values = _plain(self), _plain(value)
        target[_plain(index)] = values
        moved = np.asarray(target[_plain(index)])
        self.tally.add(0.0, [*_arrays(values), *_arrays(_plain(index))], [moved])

    def sort(self, *args: Any, **named: Any) -> None:
        """Sorts in place, counted as `np.sort`."""
        _plain(self)[...] = _plain(np.sort(self, *args, **named))

    def partition(self, *args: Any, **named: Any) -> None:
        """Partitions in place, counted as `np.partition`."""
        _plain(self)[...] = _plain(np.partition(self, *args, **named))

    def fill(self, value: Any) -> None:
        """Writes all elements."""
        self[...] = value


def _as_function(name: str) -> Callable[..., Any]:
    """The method of a name, by the function of that name, which is counted."""

    def method(self: CountedArray, *args: Any, **named: Any) -> Any:
        return getattr(np, name)(self, *args, **named)

    return method


def _as_copy(name: str) -> Callable[..., Any]:
    """The method of a name, which reads all elements and may write them elsewhere."""

    def method(self: CountedArray, *args: Any, **named: Any) -> Any:
        whole = _plain(self)
        result = getattr(whole, name)(*args, **named)
        if result is whole:
            return self
        self.tally.add(0.0, [whole], _arrays(result))
        return _wrapped(result, self.tally)

    return method


for _name in (
    *(
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "choose",
        "compress",
        "cumprod",
        "cumsum",
        "dot",
    ),
    *("nonzero", "repeat", "round", "searchsorted", "take", "trace"),
):
    setattr(CountedArray, _name, _as_function(_name))
for _name in ("astype", "copy", "flatten", "tobytes", "tolist"):
    setattr(CountedArray, _name, _as_copy(_name))


def counted(function: Callable[..., Any], *sample: Any, **named: Any) -> Count:
    """Count what a NumPy function computes and moves on a sample.

    Its array arguments are counted wherever they, and what comes of them, are used.

    Parameters
    ----------
    function
        What is counted.
    sample, named
        Its arguments.

    Returns
    -------
    A `Count`: operations and bytes; `scaled` gives those of a larger problem, `node` a node's attributes.

    Examples
    --------
    >>> import numpy as np
    >>> ck.counted(lambda a, b: a @ b, np.ones((8, 16)), np.ones((16, 4))).operations
    1024.0

    """
    tally = _Tally()
    arguments = [_wrapped(a, tally) for a in sample]
    function(*arguments, **{name: _wrapped(a, tally) for name, a in named.items()})
    if not tally.calls:
        raise ConfigError(
            "nothing was counted: give arrays of NumPy that the function computes with"
        )
    return tally.count()


def _wrapped(value: Any, tally: _Tally) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_wrapped(v, tally) for v in value)
    if type(value) is dict:
        return {name: _wrapped(v, tally) for name, v in value.items()}
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    array = value.view(CountedArray)
    array.tally = tally
    return array


def _plain(value: Any) -> Any:
    if isinstance(value, CountedArray):
        return value.view(np.ndarray)
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(v) for v in value)
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _arrays(value: Any) -> list[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for v in value for a in _arrays(v)] if isinstance(value, (tuple, list)) else []


def _ufunc_operations(ufunc: Any, method: str, inputs: list[Any], outputs: Iterable[Any]) -> float:
    """One operation per element of the result; of a reduction per element of its input."""
    if ufunc is np.matmul:
        result = next(iter(outputs))
        return 2.0 * float(np.size(result)) * int(np.shape(inputs[0])[-1])
    if method in ("reduce", "accumulate", "reduceat"):
        return float(np.size(inputs[0]))
    return float(sum(np.size(o) for o in outputs))


_SORTS = {np.sort, np.argsort, np.unique, np.lexsort, np.partition, np.argpartition}
_PRODUCTS = {np.dot, np.inner, np.einsum, np.tensordot, np.vdot}


def _einsum_operations(subscripts: str, arrays: list[Any]) -> float:
    """Two for every combination of all indices, and one where nothing is multiplied."""
    terms = subscripts.replace(" ", "").partition("->")[0].split(",")
    sides = {
        i: n
        for term, a in zip(terms, arrays, strict=False)
        for i, n in zip(term, a.shape, strict=False)
    }
    return float(math.prod(sides.values())) * min(2, len(arrays))


def _function_operations(
    function: Any, args: Any, kwargs: Any, inputs: list[Any], outputs: list[Any]
) -> float:
    """N log2 n comparisons of a sort, two operations per product, else one per element of the largest.

    Functions that solve or factor are refused: how many operations they take depends on how they do it.
    """
    most = float(max((a.size for a in [*inputs, *outputs]), default=0))
    if function in _SORTS:
        return most * math.log2(max(2.0, most))
    if function is np.einsum and args and isinstance(args[0], str):
        return _einsum_operations(args[0], inputs)
    if function in _PRODUCTS:
        arrays = [a for a in inputs if a.ndim]
        inner = arrays[0].shape[-1] if arrays else 1
        return 2.0 * float(inner) * max(1, sum(int(o.size) for o in outputs))
    if function is np.searchsorted:
        return float(np.size(args[1])) * math.log2(max(2, np.size(args[0])))
    if function in (np.convolve, np.correlate):
        return 2.0 * float(math.prod(a.size for a in inputs[:2]))
    if function.__name__ in _TRANSFORMS and function.__module__ == np.fft.fft.__module__:
        return _transform_operations(function.__name__, args, kwargs, inputs[0], outputs[0])
    if function.__module__ == np.linalg.solve.__module__ and function is not np.linalg.norm:
        raise ConfigError(
            f"np.linalg.{function.__name__}: how many operations it takes is not known here; write it out "
            "in products and sums"
        )
    return most


_TRANSFORMS = {f"{i}{r}fft{n}" for i in ("", "i") for r in ("", "r", "h") for n in ("", "2", "n")}


def _transform_operations(name: str, args: Any, kwargs: Any, first: Any, result: Any) -> float:
    """5 n log2 n of a transform of n complex numbers, half of that of n real ones."""
    real = "r" in name or "h" in name
    larger = first if first.size > result.size else result
    axes = {"2": (-2, -1), "n": tuple(range(larger.ndim))}.get(name[-1], (-1,))
    given = kwargs.get("axis", kwargs.get("axes", args[2] if len(args) > 2 else None))
    axes = axes if given is None else (given,) if isinstance(given, int) else tuple(given)
    length = math.prod(larger.shape[a] for a in axes)
    return (2.5 if real else 5.0) * float(larger.size) * math.log2(max(2, length))
