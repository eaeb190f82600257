"""Recurrent layers and cells as a GPU runs them: cuDNN's layers, and cells with one kernel for their gates.

The host composes both of other operators. The products of cells, and their gradients, are PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import Recorder
from chakrakit.sources.capture.recording import Patches

_aten = torch.ops.aten


class RecurrentKind(NamedTuple):
    """A kind of layer: its number among cuDNN's, and how many values per unit it keeps for gradients."""

    mode: int
    kept: int


_KINDS = {
    "rnn_relu": RecurrentKind(0, 1),
    "rnn_tanh": RecurrentKind(1, 1),
    "lstm": RecurrentKind(2, 5),
    "gru": RecurrentKind(3, 6),
}
"""What is kept, as cuDNN 9.19 reserved it on an H200 in 49 layers: `_kept` gives its bytes exactly."""
_RESERVED = 256
"""Bytes that cuDNN reserves beside what it keeps, as seen in `_cudnn_rnn_backward` on an H200."""

_GENERATORS, _GENERATOR_BYTES = 2048, 24
"""Generators of random numbers for each multiprocessor, and the size of each: cuDNN 9.19 took 6,488,064 bytes
on an H200, which has 132."""


def install(patches: Patches, recorder: Recorder) -> None:
    """Replace the functions that `nn.LSTM`, `nn.GRU`, `nn.RNN` and their cells call."""
    for name, kind in _KINDS.items():
        for owner in (torch._VF, torch):
            patches.wrap(owner, name, _layers(recorder, kind))
    cells = {"lstm_cell": _lstm_cell(recorder), "gru_cell": _gru_cell(recorder)}
    for name, make in cells.items():
        for owner in (torch._VF, torch):
            patches.wrap(owner, name, make)


# --- layers -------------------------------------------------------------------------------------


class RecurrentArguments(NamedTuple):
    """The arguments of `_cudnn_rnn` that are no tensors, in its order."""

    mode: int
    hidden: int
    projection: int
    layers: int
    batch_first: bool
    dropout: float
    train: bool
    both: bool
    batch_sizes: list[int]

    @property
    def directions(self) -> int:
        """How often a layer reads the sequence."""
        return 2 if self.both else 1


def _layers(recorder: Recorder, kind: RecurrentKind) -> Callable[[Any], Callable[..., Any]]:
    apply = _cudnn(recorder, kind)
    is_lstm = kind.mode == _KINDS["lstm"].mode

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def recurrent(x: Any, second: Any, *rest: Any) -> Any:
            if not isinstance(x, FakeTensor) or x.device.type == "meta":
                return plain(x, second, *rest)
            packed = not isinstance(rest[1], bool)  # sizes of batches come before the state
            state, rest = (rest[0], rest[1:]) if packed else (second, rest)
            weights, _, layers, dropout, train, both, *more = rest
            weights = list(weights)
            states = list(state) if is_lstm else [state]
            if torch.is_autocast_enabled("cpu"):
                kind_of = torch.get_autocast_dtype("cpu")
                x, *states = (t.to(kind_of) for t in (x, *states))
                weights = [w.to(kind_of) for w in weights]
            hidden, projection = _widths(states)
            form = RecurrentArguments(
                *(kind.mode, hidden, projection, layers, bool(more and more[0])),
                *(float(dropout), bool(train), bool(both)),
                [int(n) for n in second] if packed else [],
            )
            out = apply(form, _per_layer(weights, form), x, states, weights)
            return out if is_lstm else out[:2]

        return recurrent

    return make


def _widths(states: Any) -> tuple[int, int]:
    """The width of the cells, and of their projection (0 where there is none)."""
    result, width = int(states[0].shape[-1]), int(states[-1].shape[-1])
    return width, result if result != width else 0


def _per_layer(weights: list[Any], form: RecurrentArguments) -> int:
    return len(weights) // (form.layers * form.directions)


def _cudnn(recorder: Recorder, kind: RecurrentKind) -> Callable[..., Any]:
    """The call of cuDNN's layers with its gradient, both recorded as one operator each."""

    class Recurrent(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, form: RecurrentArguments, stride: int, cells: int, x: Any, *tensors: Any
        ) -> Any:
            states, weights = tensors[:cells], list(tensors[cells:])
            buffer = _buffer(recorder, weights)
            cell = states[1] if cells > 1 else None
            drawn = _dropout_state(recorder, form, x)
            given = (x, weights, stride, buffer, states[0], cell, *form, drawn)
            out = recorder.as_one(
                _aten._cudnn_rnn.default, given, lambda: _results(kind, form, x, states, buffer)
            )
            ctx.form, ctx.stride, ctx.cells, ctx.buffer = form, stride, cells, buffer
            ctx.drawn = drawn
            ctx.save_for_backward(x, out[0], out[3], *states, *weights)
            ctx.set_materialize_grads(False)
            return out[: 1 + cells]

        @staticmethod
        def backward(ctx: Any, grad: Any, *of_states: Any) -> Any:
            x, out, reserve, *tensors = ctx.saved_tensors
            states, weights = tensors[: ctx.cells], tensors[ctx.cells :]
            pairs = (*of_states, None)[:2]
            needed = [ctx.needs_input_grad[3], ctx.needs_input_grad[4]]
            needed += [
                ctx.cells > 1 and ctx.needs_input_grad[5],
                any(ctx.needs_input_grad[4 + ctx.cells :]),
            ]
            cell = states[1] if ctx.cells > 1 else None
            given = (x, weights, ctx.stride, ctx.buffer, states[0], cell, out, grad, *pairs)
            given = (*given, *ctx.form, ctx.drawn, reserve, needed)
            made = recorder.as_one(
                _aten._cudnn_rnn_backward.default, given, lambda: _gradients(given, needed)
            )
            hidden = made[1 : 1 + ctx.cells]
            return None, None, None, made[0], *hidden, *made[3]

    def apply(
        form: RecurrentArguments, stride: int, x: Any, states: Any, weights: list[Any]
    ) -> Any:
        return Recurrent.apply(form, stride, len(states), x, *states, *weights)

    return apply


def _buffer(recorder: Recorder, weights: list[Any]) -> torch.Tensor:
    """All weights as the one tensor that `flatten_parameters` lays them in on a GPU; it adds no memory."""
    with _disable_current_modes():
        buffer: torch.Tensor = weights[0].new_empty(sum(w.numel() for w in weights))
    recorder.storages.share(buffer, weights[0])
    return buffer


def _dropout_state(recorder: Recorder, form: RecurrentArguments, x: Any) -> Any:
    """The generators that draw what is dropped between layers: made once, kept until the end."""
    if not (form.dropout and form.train):
        return None
    if recorder.dropout_state is None:
        size = _GENERATOR_BYTES * _GENERATORS * recorder.multiprocessors
        recorder.dropout_state = x.new_empty(size, dtype=torch.uint8)
    return recorder.dropout_state


def _results(
    kind: RecurrentKind, form: RecurrentArguments, x: Any, states: Any, buffer: Any
) -> Any:
    """Results of the layers, the new states, and what is kept for the gradients."""
    rows = x.shape[:-1]
    width = (form.projection or form.hidden) * form.directions
    swapped = form.batch_first and not form.batch_sizes
    out = x.new_empty((*(rows[::-1] if swapped else rows), width))
    out = out.transpose(0, 1) if swapped else out
    new = [torch.empty_like(s) for s in states]
    cell = new[1] if len(new) > 1 else x.new_empty(0)
    return out, new[0], cell, x.new_empty(_kept(kind, form, x), dtype=torch.uint8), buffer


def _kept(kind: RecurrentKind, form: RecurrentArguments, x: Any) -> int:
    """Bytes that a forward keeps for its gradient: of every layer, and what all but the last hand on."""
    if not form.train:
        return 0
    values = form.layers * kind.kept * form.hidden + (form.layers - 1) * form.hidden
    rows = x.numel() // x.shape[-1] * form.directions
    dropped = rows * (form.layers - 1) * form.hidden // 8 if form.dropout else 0  # a bit for each
    return int(rows * values * x.element_size() + dropped) + _RESERVED


def _gradients(given: Any, needed: list[bool]) -> Any:
    x, weights, hidden, cell = given[0], given[1], given[4], given[5]
    of_states = [torch.empty_like(s) if s is not None else None for s in (hidden, cell)]
    of_weights = [torch.empty_like(w) if needed[3] else None for w in weights]
    return torch.empty_like(x) if needed[0] else None, *of_states, of_weights


# --- cells --------------------------------------------------------------------------------------


def _products(x: Any, hidden: Any, weights: tuple[Any, Any]) -> tuple[Any, Any]:
    return torch.matmul(x, weights[0].t()), torch.matmul(hidden, weights[1].t())


def _lstm_cell(recorder: Recorder) -> Callable[[Any], Callable[..., Any]]:
    class Gates(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, first: Any, second: Any, cell: Any, *biases: Any) -> Any:
            given = (first, second, cell, *biases)
            hidden, new, kept = recorder.as_one(
                _aten._thnn_fused_lstm_cell.default,
                given,
                lambda: (torch.empty_like(cell), torch.empty_like(cell), torch.empty_like(first)),
            )
            ctx.save_for_backward(cell, new, kept)
            ctx.biased = len(biases) > 0
            return hidden, new

        @staticmethod
        def backward(ctx: Any, of_hidden: Any, of_cell: Any) -> Any:
            cell, new, kept = ctx.saved_tensors
            given = (of_hidden, of_cell, cell, new, kept, ctx.biased)
            gates, before, bias = recorder.as_one(
                _aten._thnn_fused_lstm_cell_backward_impl.default,
                given,
                lambda: (
                    torch.empty_like(kept),
                    torch.empty_like(cell),
                    kept.new_empty(kept.shape[-1]) if ctx.biased else kept.new_empty(0),
                ),
            )
            return gates, gates, before, *((bias, bias) if ctx.biased else ())

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def lstm_cell(x: Any, state: Any, w: Any, u: Any, *biases: Any) -> Any:
            if not isinstance(x, FakeTensor) or x.device.type == "meta":
                return plain(x, state, w, u, *biases)
            first, second = _products(x, state[0], (w, u))
            cell = state[1].to(first.dtype)
            given = [b.to(first.dtype) for b in biases if b is not None]
            return Gates.apply(first, second, cell, *given)

        return lstm_cell

    return make


def _gru_cell(recorder: Recorder) -> Callable[[Any], Callable[..., Any]]:
    class Gates(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, first: Any, second: Any, hidden: Any, *biases: Any) -> Any:
            new, kept = recorder.as_one(
                _aten._thnn_fused_gru_cell.default,
                (first, second, hidden, *biases),
                lambda: (
                    torch.empty_like(hidden),
                    hidden.new_empty((hidden.shape[0], hidden.shape[1] * _KEPT_BY_GRU)),
                ),
            )
            ctx.save_for_backward(kept)
            ctx.like, ctx.biased = (first.shape, hidden.shape), len(biases) > 0
            return new

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (kept,) = ctx.saved_tensors
            wide, narrow = ctx.like
            biases = 2 if ctx.biased else 0
            return recorder.as_one(
                _aten._thnn_fused_gru_cell_backward.default,
                (grad, kept, ctx.biased),
                lambda: (
                    *(kept.new_empty(wide) for _ in range(2)),
                    kept.new_empty(narrow),
                    *(kept.new_empty(wide[-1]) for _ in range(biases)),
                ),
            )

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def gru_cell(x: Any, hidden: Any, w: Any, u: Any, *biases: Any) -> Any:
            if not isinstance(x, FakeTensor) or x.device.type == "meta":
                return plain(x, hidden, w, u, *biases)
            first, second = _products(x, hidden, (w, u))
            given = [b.to(first.dtype) for b in biases if b is not None]
            return Gates.apply(first, second, hidden.to(first.dtype), *given)

        return gru_cell

    return make


_KEPT_BY_GRU = 5
"""Values per unit in the workspace of `_thnn_fused_gru_cell` (`GRU_WORKSPACE_MULTIPLIER` in PyTorch)."""
