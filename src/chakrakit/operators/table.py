"""The table of operators: what each computes, touches and aliases; one lookup for every room.

`operator_of(name)` finds an operator's entry, `operation_of(call)` the class and size of a call in the terms
that profiles are made in, `cost_of(call)` its floating-point operations and bytes. A new operator, or
a correction, is one line here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from chakrakit.operators import formulas, indexing, streaming
from chakrakit.operators.calls import LARGEST, Call, Count, Measure, Operand, Operation, short_name
from chakrakit.operators.communication import is_communication
from chakrakit.operators.element_types import is_complex
from chakrakit.operators.names import ALLOCATIONS, COPIES, IDENTITIES, INDEXING, QUESTIONS, VIEWS
from chakrakit.operators.products import (
    AttentionArguments,
    Convolution,
    Recurrent,
    by_vector,
    count_grouped,
    count_linear,
    count_listed,
    count_product,
    grouped,
    linear,
    product,
)
from chakrakit.operators.rows import (
    channels,
    groups,
    lines,
    loss_backward,
    loss_forward,
    read_all,
    reduction,
    results_of,
    rows,
    window,
)


class Work(StrEnum):
    """The kind of work an operator does."""

    MATRIX = "matrix"
    """Products, convolutions, recurrent layers."""
    ATTENTION = "attention"
    VECTOR = "vector"
    """Element by element, or rows as wholes."""
    COPY = "copy"
    INDEX = "index"
    VIEW = "view"
    """Results alias the first tensor."""
    ALLOCATION = "allocation"
    QUESTION = "question"
    """For the host alone."""
    COMMUNICATION = "communication"
    FUSED = "fused"
    """A generated kernel, or an operator that is not PyTorch's: its bytes are known, its FLOPs are not."""


_OP_TYPES = {Work.MATRIX: "matmul", Work.ATTENTION: "attention", Work.INDEX: "lookup"}
_STILL = (Work.VIEW, Work.ALLOCATION, Work.QUESTION)


class Operator(NamedTuple):
    """What is known of an operator by its name alone."""

    name: str
    """Without namespace, and without the underscore of the form that works in place."""
    work: Work
    count: Count
    measure: Measure
    plain: bool = False
    """Whether its work depends on arguments that are not tensors, even where its results are recorded."""

    @property
    def on_products(self) -> bool:
        """Whether product units do its work."""
        return self.work in (Work.MATRIX, Work.ATTENTION)

    @property
    def touches_memory(self) -> bool:
        """Whether it reads or writes elements at all; views, allocations and questions do not."""
        return self.work not in _STILL

    @property
    def op_type(self) -> str:
        """The value of the attribute `op_type` that generated workloads have for such work."""
        return _OP_TYPES.get(self.work, "vector")


class Cost(NamedTuple):
    """What a call computes and touches."""

    flops: int = 0
    """Of product units."""
    vector_ops: int = 0
    """All other floating-point operations."""
    bytes: int = 0

    @property
    def ops(self) -> int:
        """All floating-point operations."""
        return self.flops + self.vector_ops


# --- counts -----------------------------------------------------------------------------------------


def _elements(operands: Iterable[Operand]) -> int:
    return sum(t.elements for t in operands)


def _argument(call: Call, index: int) -> int:
    """How many elements an argument has: a tensor, or all tensors of a list."""
    operand = call.tensor(index)
    return operand.elements if operand is not None else _elements(call.listed(index))


def _nothing(_: Call) -> int:
    return 0


def _pointwise(call: Call) -> int:
    """Counts one operation per element of the results, or of the first tensor if none is recorded."""
    return _elements(call.outputs) or _argument(call, 0)


def _each(operations: int, index: int = 0) -> Count:
    """Counts so many operations for every element of the argument at `index`."""
    return lambda call: operations * _argument(call, index)


def _folded(place: int) -> Count:
    """Counts a reduction: one operation for every element but one of each result."""

    def count(call: Call) -> int:
        x = call.tensor(0)
        return 0 if x is None else max(0, x.elements - results_of(call, x, place))

    return count


def _placed(source: int) -> Count:
    """Counts one addition per element of the source, or of the index before it if there is no source."""
    return lambda call: _argument(call, source) or _argument(call, source - 1)


def _put(call: Call) -> int:
    """Counts one addition per value of an `index_put` that accumulates."""
    return _argument(call, 2) if call.flag(3) else 0


def _bagged(call: Call) -> int:
    """Counts an addition for every element of a row that is added to its bag."""
    weight, index = call.tensor(0), call.tensor(1)
    if weight is None or index is None or len(weight.shape) != 2:
        return 0
    return index.elements * weight.shape[1]


def _layers(passes: int) -> Count:
    """Counts a recurrent layer of oneDNN, whose weights of inputs and of the state are two tensors."""

    def count(call: Call) -> int:
        x, *weights = (call.tensor(i) for i in range(3))
        if x is None or None in weights:
            return 0
        matrices = sum(w.elements for w in weights if w is not None)
        return formulas.recurrent_flops(math.prod(x.shape[:-1]), 1, matrices, passes)

    return count


# --- entries ----------------------------------------------------------------------------------------

Entry = tuple[Work, Count, Measure, bool]


def _matrix(count: Count, measure: Measure, plain: bool = False) -> Entry:
    return Work.MATRIX, count, measure, plain


def _vector(count: Count, measure: Measure, plain: bool = False) -> Entry:
    return Work.VECTOR, count, measure, plain


def _index(count: Count, measure: Measure, plain: bool = False) -> Entry:
    return Work.INDEX, count, measure, plain


_ATTENTION = {
    "_scaled_dot_product_flash_attention": AttentionArguments("flash", 3, 4),
    "_scaled_dot_product_flash_attention_backward": AttentionArguments(
        "flash", 10, 11, backward=True
    ),
    "_scaled_dot_product_flash_attention_for_cpu": AttentionArguments("flash", 3, 4),
    "_scaled_dot_product_flash_attention_for_cpu_backward": AttentionArguments(
        "flash", 6, 7, backward=True
    ),
    "_scaled_dot_product_efficient_attention": AttentionArguments("efficient", 5, 6, 3),
    "_scaled_dot_product_efficient_attention_backward": AttentionArguments(
        "efficient", 9, 11, 4, backward=True
    ),
    "_scaled_dot_product_cudnn_attention": AttentionArguments("cudnn", 5, 6, 3),
    "_scaled_dot_product_cudnn_attention_backward": AttentionArguments(
        "cudnn", 13, 14, 8, backward=True
    ),
    "_flash_attention_forward": AttentionArguments("flash", 7, 8, by_rows=True),
    "_flash_attention_backward": AttentionArguments("flash", 10, 11, by_rows=True, backward=True),
    "_efficient_attention_forward": AttentionArguments("efficient", 8, 9, 3, by_rows=True),
    "_efficient_attention_backward": AttentionArguments(
        "efficient", 11, 14, 4, by_rows=True, backward=True
    ),
    "_cudnn_attention_forward": AttentionArguments("cudnn", 9, 10, 3),
    "_cudnn_attention_backward": AttentionArguments("cudnn", 13, 14, 8, backward=True),
}
_SCORES_AGAIN = 1 / 5
"""The share of a fused attention's backward that computes the scores once more, keys being as wide as values:
one product beside the four gradients of the two forward (`attention_flops`)."""
_PLAIN_CONVOLUTION = Convolution(3, 4, 5, groups=8, transposed=6, more=7)
_LIBRARY_CONVOLUTION = Convolution(4, 3, 5, groups=6)
_CONVOLUTIONS = {
    "convolution": _PLAIN_CONVOLUTION,
    "_convolution": _PLAIN_CONVOLUTION,
    "convolution_overrideable": _PLAIN_CONVOLUTION,
    "cudnn_convolution": Convolution(3, 2, 4, groups=5),
    "cudnn_convolution_transpose": Convolution(4, 2, 5, groups=6, more=3, always_transposed=True),
    "miopen_convolution": _LIBRARY_CONVOLUTION,
    "mkldnn_convolution": _LIBRARY_CONVOLUTION,
    "_conv_depthwise2d": Convolution(4, 5, 6),
    "_slow_conv2d_forward": Convolution(4, 5, -1),
    "convolution_backward": Convolution(
        4, 5, 6, groups=9, transposed=7, more=8, image=1, output_mask=10
    ),
}
_RECURRENT = {"_cudnn_rnn": Recurrent(1, 6), "_cudnn_rnn_backward": Recurrent(2, 10)}

_FOLDS = ("amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "std", "var_mean",
          "std_mean", "logsumexp")  # fmt: skip
_SCANS = ("sort", "argsort", "cumsum", "cumprod", "multinomial", "searchsorted")
_READS = (
    "nonzero", "bincount", "histc", "_unique2", "unique_dim", "masked_select", "unique_consecutive"
)  # fmt: skip
_POOLS = {"max_pool2d_with_indices": 0, "max_pool2d_with_indices_backward": 1, "avg_pool2d": 0,
          "avg_pool2d_backward": 1, "upsample_nearest2d": 0, "upsample_nearest2d_backward": 0,
          "upsample_bilinear2d": 0, "upsample_bilinear2d_backward": 0}  # fmt: skip
_DUPLICATES = ("_to_copy", "clone")
_FILLED = ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
           "new_full")  # fmt: skip
_PARTS_BACK = ("slice_backward", "select_backward")
"""Operators that a dispatcher sees whole; a recording's kernels belong to the copies and fills inside."""
_GENERATED = "triton_"
"""The beginning of names of kernels that a compiler made from several operators."""
_LISTS = ("_foreach_", "_fused_ad", "_fused_sgd", "_amp_foreach")
"""The beginnings of names of operators over lists of tensors."""

_ENTRIES: dict[str, Entry] = {
    "mm": _matrix(count_product(0), product(0)),
    "bmm": _matrix(count_product(0), product(0)),
    "matmul": _matrix(count_product(0), product(0)),
    "_int_mm": _matrix(count_product(0), product(0)),
    "_scaled_mm": _matrix(count_product(0), product(0)),
    "_scaled_mm_v2": _matrix(count_product(0), product(0)),
    "addmm": _matrix(count_product(1), product(1)),
    "_addmm_activation": _matrix(count_product(1), product(1)),
    "baddbmm": _matrix(count_product(1), product(1)),
    "addbmm": _matrix(count_product(1), product(1)),
    "linear": _matrix(count_linear, linear),
    "mkldnn_linear": _matrix(count_linear, linear),
    "mv": _matrix(count_product(0), by_vector(0)),
    "dot": _matrix(count_product(0), by_vector(0)),
    "vdot": _matrix(count_product(0), by_vector(0)),
    "addmv": _matrix(count_product(1), by_vector(1)),
    "_grouped_mm": _matrix(count_grouped, grouped(2)),
    "_scaled_grouped_mm": _matrix(count_grouped, grouped(4)),
    "_scaled_grouped_mm_v2": _matrix(count_grouped, grouped(8)),
    "_foreach_mm": _matrix(count_listed, streaming.of_products),
    "mkldnn_rnn_layer": _matrix(_layers(1), streaming.of_products),
    "mkldnn_rnn_layer_backward": _matrix(_layers(2), streaming.of_products),
    "native_layer_norm": _vector(_each(formulas.LAYER_NORM.forward), rows("layer_norm", 2)),
    "native_layer_norm_backward": _vector(
        _each(formulas.NORM.backward), rows("layer_norm_backward", 3)
    ),
    "_fused_rms_norm": _vector(_each(formulas.NORM.forward), rows("layer_norm", 2)),
    "_fused_rms_norm_backward": _vector(
        _each(formulas.NORM.backward), rows("layer_norm_backward", 3)
    ),
    "_softmax": _vector(_each(formulas.SOFTMAX.forward), rows("softmax", 2)),
    "_log_softmax": _vector(_each(formulas.SOFTMAX.forward), rows("softmax", 2)),
    "_softmax_backward_data": _vector(
        _each(formulas.SOFTMAX.backward), rows("softmax_backward", 3)
    ),
    "_log_softmax_backward_data": _vector(
        _each(formulas.SOFTMAX.backward), rows("softmax_backward", 3)
    ),
    "native_group_norm": _vector(_each(formulas.LAYER_NORM.forward), groups("layer_norm", 2)),
    "native_group_norm_backward": _vector(
        _each(formulas.NORM.backward), groups("layer_norm_backward", 3)
    ),
    "native_batch_norm": _vector(_each(formulas.LAYER_NORM.forward), channels("batch_norm", 2)),
    "cudnn_batch_norm": _vector(_each(formulas.LAYER_NORM.forward), channels("batch_norm", 2)),
    "_native_batch_norm_legit": _vector(_each(formulas.LAYER_NORM.forward), streaming.elementwise),
    "native_batch_norm_backward": _vector(
        _each(formulas.NORM.backward), channels("batch_norm_backward", 3)
    ),
    "cudnn_batch_norm_backward": _vector(
        _each(formulas.NORM.backward), channels("batch_norm_backward", 3)
    ),
    "gelu": _vector(_each(formulas.GELU.forward), streaming.elementwise),
    "gelu_backward": _vector(_each(formulas.GELU.backward), streaming.elementwise),
    "silu": _vector(_each(formulas.SILU.forward), streaming.elementwise),
    "silu_backward": _vector(_each(formulas.SILU.backward), streaming.elementwise),
    "_fused_adam": _vector(_each(formulas.ADAM), streaming.of_lists),
    "_fused_adamw": _vector(_each(formulas.ADAMW), streaming.of_lists),
    "_fused_sgd": _vector(_each(formulas.SGD), streaming.of_lists),
    "_thnn_fused_lstm_cell": _vector(_each(formulas.LSTM_CELL, 2), streaming.elementwise),
    "_thnn_fused_gru_cell": _vector(_each(formulas.GRU_CELL, 2), streaming.elementwise),
    "sum": _vector(_folded(1), reduction("sum", 1)),
    "mean": _vector(_folded(1), reduction("mean", 1)),
    "linalg_vector_norm": _vector(_folded(2), reduction("elementwise", 2)),
    "nll_loss_forward": _vector(_each(1, 1), loss_forward),
    "nll_loss_backward": _vector(_each(1, 2), loss_backward),
    "nll_loss2d_forward": _vector(_each(1, 1), loss_forward),
    "nll_loss2d_backward": _vector(_each(1, 2), loss_backward),
    "topk": _vector(_each(1), lines(2)),
    "embedding": _index(_nothing, indexing.lookup),
    "embedding_dense_backward": _index(_each(1), indexing.lookup_backward, plain=True),
    "_embedding_bag": _index(_bagged, indexing.bags),
    "_embedding_bag_forward_only": _index(_bagged, indexing.bags),
    "_embedding_bag_dense_backward": _index(_each(1), indexing.bags_backward, plain=True),
    "_embedding_bag_backward": _index(_each(1), indexing.bags_backward, plain=True),
    "index_select": _index(_nothing, indexing.selection, plain=True),
    "gather": _index(_nothing, indexing.selection),
    "index": _index(_nothing, indexing.advanced),
    "index_put": _index(_put, indexing.put, plain=True),
    "_index_put_impl": _index(_put, indexing.put, plain=True),
    "index_copy": _index(_nothing, indexing.placement),
    "index_fill": _index(_nothing, indexing.placement),
    "scatter": _index(_nothing, indexing.placement),
    "index_add": _index(_placed(3), indexing.placement),
    "scatter_add": _index(_placed(3), indexing.placement),
    "scatter_reduce": _index(_placed(3), indexing.placement),
    "copy": (Work.COPY, _nothing, streaming.copy, False),
    "relu": _vector(_pointwise, streaming.like("clamp_min")),
    "cat": (Work.COPY, _nothing, streaming.concatenation, False),
    "stack": (Work.COPY, _nothing, streaming.concatenation, False),
}
_ENTRIES |= dict.fromkeys(_DUPLICATES, (Work.COPY, _nothing, streaming.duplicate, False))
_ENTRIES |= dict.fromkeys(_FILLED, (Work.COPY, _nothing, streaming.filled_with, False))
_ENTRIES |= {n: _vector(_pointwise, streaming.scattered_back) for n in _PARTS_BACK}
_ENTRIES |= {n: (Work.ATTENTION, a.count, a.measure, True) for n, a in _ATTENTION.items()}
_ENTRIES |= {n: _matrix(c.count, c.measure, plain=True) for n, c in _CONVOLUTIONS.items()}
_ENTRIES |= {n: _matrix(r.count, r.measure, plain=True) for n, r in _RECURRENT.items()}
_ENTRIES |= {n: _vector(_folded(1), reduction("elementwise", 1)) for n in _FOLDS}
_ENTRIES |= {n: _vector(_each(1), lines(1)) for n in _SCANS}
_ENTRIES |= {n: _vector(_each(1), read_all) for n in _READS}
_ENTRIES |= {n: _vector(_pointwise, window(place)) for n, place in _POOLS.items()}

_WORK = {
    short_name(name): work
    for work, names in (
        (Work.INDEX, INDEXING),
        (Work.COPY, COPIES),
        (Work.QUESTION, QUESTIONS),
        (Work.ALLOCATION, ALLOCATIONS),
        (Work.VIEW, VIEWS),
    )
    for name in names
}
_OPTIMIZERS = re.compile(r"^Optimizer\.step|_foreach_|_fused_adam|addcdiv|addcmul")
_FOLDED_LISTS = frozenset(("_foreach_norm", "_foreach_max", "_foreach_powsum", "_foreach_mm"))
"""Operators over lists that do more than treat every element alike."""
TABLED = frozenset(_ENTRIES)
"""Names of operators with an entry of their own, in the form that does not work in place."""


# --- lookups ----------------------------------------------------------------------------------------


@lru_cache(1 << 14)
def operator_of(name: str) -> Operator:
    """The entry of an operator, by its full name (`aten::mm`)."""
    space, _, _ = name.partition("::")
    short = short_name(name)
    if space != "aten":
        generated = name.startswith(_GENERATED)
        work = Work.COMMUNICATION if is_communication(name) else Work.FUSED
        return Operator(
            short, work, _nothing, streaming.fused if generated else streaming.unknown, generated
        )
    if short in _ENTRIES:
        return Operator(short, *_ENTRIES[short])
    work = _WORK.get(short, Work.VECTOR)
    count = _pointwise if work is Work.VECTOR else _nothing
    listed = short.startswith(_LISTS)
    writes = work in (Work.VECTOR, Work.INDEX, Work.COPY)
    measure = streaming.unlisted if writes else streaming.elementwise
    return Operator(short, work, count, streaming.of_lists if listed else measure)


def computes(name: str) -> bool | None:
    """Whether a host row of this name computes, copies or looks something up; None for no operator."""
    if "::" not in name or " " in name:
        return None
    operator = operator_of(name)
    engine = name.startswith("autograd::")
    return not engine and operator.touches_memory and operator.work is not Work.COMMUNICATION


_LOADER = re.compile(r"DataLoader\w*\b.*__next__|^enumerate\(DataLoader")
"""Ranges in which PyTorch's profiler marks that a program asks its loader for the next batch."""


def asks_loader(name: str) -> bool:
    """Whether a host row of this name asks a data loader for the next batch."""
    return _LOADER.search(name) is not None


def rounding_of(name: str) -> str:
    """Which setting of PyTorch lets an operator compute fp32 in TF32: `matmul`, `conv`, `rnn`; "" for none.

    Fused attention has none: its kernels for fp32 do not ask.
    """
    operator = operator_of(name)
    if operator.name in _CONVOLUTIONS:
        return "conv"
    if operator.name in _RECURRENT:
        return "rnn"
    return "matmul" if operator.work is Work.MATRIX else ""


def computed_again(name: str) -> float:
    """The share of an operator's FLOPs that no model has: fused attention makes scores again backward."""
    attention = _ATTENTION.get(short_name(name))
    return _SCORES_AGAIN if attention is not None and attention.backward else 0.0


def by_elements(name: str) -> bool:
    """Whether an operator treats lists of tensors element by element, so that shards can be treated alone."""
    operator = operator_of(name)
    return operator.name.startswith(_LISTS) and operator.name not in _FOLDED_LISTS


_FLOAT32 = re.compile(r"sgemm|ffma|gemm_f32f32_f32f32_f32|fmha_cutlass[FB]_f32")
"""Kernels of products and attention on plain float32 units; those on TF32 say so."""


def on_float32(kernel: str) -> bool:
    """Whether a kernel computes products on plain float32 units, by its name."""
    return _FLOAT32.search(kernel) is not None


def on_tf32(kernel: str) -> bool:
    """Whether a kernel computes products of float32 tensors on TF32 units, by its name."""
    return "tf32" in kernel.lower()


def is_optimizer(name: str) -> bool:
    """Whether a row belongs to an update of parameters, by the operators that optimizers are made of."""
    return _OPTIMIZERS.search(name) is not None


def is_silent(name: str) -> bool:
    """Whether a device never sees an operator: a question of the host, or the same tensor once more."""
    operator = operator_of(name)
    return operator.work is Work.QUESTION or operator.name in IDENTITIES


def operation_of(call: Call) -> Operation | None:
    """The class and size of a call's work; None where its tensors are unknown."""
    operator = operator_of(call.name)
    operation = operator.measure(call)
    if operation is None:
        return None
    flops, vector_ops = _counted(operator, call)
    return operation._replace(flops=float(flops), vector_ops=float(vector_ops))


def cost_of(call: Call) -> Cost:
    """What a call computes and touches; nothing for views, and for sizes that no machine has."""
    operator = operator_of(call.name)
    if not operator.touches_memory:
        return Cost()
    operation = operator.measure(call)
    every = (*call.tensors, *call.outputs)
    moved = operation.bytes if operation is not None else sum(t.touched for t in every)
    return Cost(*_counted(operator, call), int(moved) if moved <= LARGEST else 0)


def _counted(operator: Operator, call: Call) -> tuple[int, int]:
    """Operations of (product units, everything else); impossibly many are damage, and count as 0."""
    ops = operator.count(call)
    if operator.on_products and any(is_complex(t.dtype) for t in call.tensors):
        ops *= formulas.COMPLEX
    ops = ops if 0 <= ops <= LARGEST else 0
    return (ops, 0) if operator.on_products else (0, ops)
