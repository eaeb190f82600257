"""Recordings and plans that are replayed with PyTorch on this machine's processor.

A crash or a hang of PyTorch is a finding like any other: what a recording says of sizes, strides, indices and
types is held against real tensors before an operator is called.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from chakrakit.errors import ChakraError
from chakrakit.replayer import ReplayOptions, export
from chakrakit.replayer.session import prepare
from chakrakit.sources.pytorch.linking import link
from fuzz.fuzz_format import Format, Step
from fuzz.hostile import hostile, places
from fuzz.mutation import gzipped, mutate_json

_SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": 20.0}
_MACHINE = 400 << 20
"""Bytes of the machine that replays believe to have: a plan may take what there is, and no more."""
_TOGETHER = 6
"""Operators in one recording: more would be lost with the first that is refused."""
_SIZES = (-1, 0, 1, 2, 3, 5, 8, 17, 64, 4096, 1 << 20, 1 << 31, 1 << 40, 1 << 62, -(1 << 62))


def _calls() -> list[Callable[[], object]]:
    """Operators whose arguments PyTorch takes on trust, or that could ask for very much."""
    import torch
    from torch import nn
    from torch.nn import functional as f

    x, y = torch.randn(8, 16), torch.randn(16, 8)
    image, weight = torch.randn(2, 4, 8, 8), torch.randn(6, 2, 3, 3)
    row, table = torch.tensor([0, 3, 1, 7]), torch.randn(10, 4)
    heads = torch.randn(2, 2, 8, 16)
    lists = [[torch.randn(4), torch.randn(3, 2)] for _ in range(4)]
    norm, lstm = nn.BatchNorm2d(4), nn.LSTM(4, 5)
    index = torch.randint(0, 8, (8, 16))
    aten = torch.ops.aten
    return [
        lambda: torch.index_select(x, 0, row),
        lambda: torch.gather(x, 0, index),
        lambda: torch.zeros(8, 16).scatter_(0, index, x),
        lambda: torch.zeros(8, 16).scatter_add_(0, index, x),
        lambda: torch.zeros(8, 16).index_add_(0, row, x[:4]),
        lambda: torch.zeros(8, 16).index_put_((row,), x[:4], accumulate=True),
        lambda: x[row],
        lambda: torch.take(x, row),
        lambda: f.embedding(row, table),
        lambda: aten.embedding_dense_backward(torch.randn(4, 4), row, 10, -1, False),
        lambda: f.embedding_bag(row, table, torch.tensor([0, 2])),
        lambda: norm(image),
        lambda: norm.eval()(image),
        lambda: f.group_norm(image, 2),
        lambda: f.layer_norm(x, [16], torch.ones(16), torch.zeros(16)),
        lambda: torch._foreach_add_(lists[0], lists[1]),
        lambda: torch._foreach_mul(lists[0], 2.0),
        lambda: torch._foreach_addcdiv_(lists[0], lists[1], lists[2]),
        lambda: torch._foreach_norm(lists[0]),
        lambda: torch._foreach_copy_(lists[0], lists[1]),
        lambda: x.as_strided((4, 4), (16, 1), 3).fill_(1.0),
        lambda: aten._reshape_alias(x, [16, 8], [8, 1]).clone(),
        lambda: x.view(4, 32).t().contiguous(),
        lambda: torch.empty(4).set_(torch.ones(8)),
        lambda: torch.empty(4).resize_(8),
        lambda: x[:, 1:].copy_(x[:, :-1].clone()),
        lambda: torch.addmm(torch.zeros(8, 8), x, y),
        lambda: torch.bmm(heads[0], heads[0].transpose(1, 2)),
        lambda: torch.baddbmm(torch.zeros(2, 8, 8), heads[0], heads[0].transpose(1, 2)),
        lambda: f.conv2d(image, weight, torch.zeros(6), stride=1, padding=1, groups=2),
        lambda: f.conv_transpose2d(image, torch.randn(4, 3, 3, 3), padding=1),
        lambda: f.max_pool2d(image, 2, return_indices=True),
        lambda: f.avg_pool2d(image, 2),
        lambda: f.adaptive_avg_pool2d(image, 3),
        lambda: f.interpolate(image, scale_factor=2.0, mode="bilinear"),
        lambda: f.pad(image, (1, 1, 1, 1), mode="reflect"),
        lambda: f.grid_sample(image, torch.rand(2, 3, 3, 2), align_corners=False),
        lambda: torch.arange(64),
        lambda: torch.linspace(0, 1, 9),
        lambda: torch.zeros(8).repeat(3),
        lambda: x.unsqueeze(0).expand(5, 8, 16).sum(),
        lambda: torch.repeat_interleave(x, torch.tensor([1, 2, 0, 1, 1, 1, 1, 1]), dim=0),
        lambda: torch.full((4, 4), 3.0).tril_(),
        lambda: torch.randperm(16),
        lambda: f.scaled_dot_product_attention(heads, heads, heads, is_causal=True),
        lambda: f.cross_entropy(x, torch.randint(0, 16, (8,))),
        lambda: f.nll_loss(f.log_softmax(x, 1), torch.randint(0, 16, (8,))),
        lambda: f.ctc_loss(
            torch.randn(6, 2, 5).log_softmax(2),
            torch.randint(1, 5, (2, 3)),
            torch.tensor([6, 6]),
            torch.tensor([3, 2]),
        ),
        lambda: torch.topk(x, 3),
        lambda: torch.sort(x),
        lambda: torch.cumsum(x, 1),
        lambda: torch.searchsorted(torch.arange(8.0), torch.rand(4)),
        lambda: torch.bincount(row),
        lambda: torch.histc(x, 5),
        lambda: torch.multinomial(torch.rand(4, 5), 2),
        lambda: torch.unique(row),
        lambda: torch.nonzero(x > 0),
        lambda: torch.masked_select(x, x > 0),
        lambda: x.masked_fill(x > 0, 1.0),
        lambda: torch.cat([x, x], 1).split(8, 1),
        lambda: torch.roll(x, 3, 1),
        lambda: torch.fft.rfft(x),
        lambda: torch.stft(torch.randn(64), 16, return_complex=True, window=torch.ones(16)),
        lambda: torch.linalg.cholesky(torch.eye(4)),
        lambda: x.to(torch.float16).float(),
        lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
        lambda: f.dropout(x, 0.5, training=True),
        lambda: torch.sparse.mm(x.to_sparse(), y).relu(),
        lambda: x.to_sparse().coalesce().values().mul_(2.0),
        lambda: x.as_strided((7, 7), (1, 1)).mul(2.0),  # elements that share memory
        lambda: x.flatten()[2:10].add_(x.flatten()[0:8].clone()),
        lambda: x.t().unfold(0, 4, 2).sum(-1),
        lambda: x.diagonal().zero_(),
        lambda: x.narrow(1, 3, 5).clone(),
        lambda: x.view(torch.int32).bitwise_and_(3),
        lambda: torch.view_as_complex(x.view(8, 8, 2)).abs(),
        lambda: torch.zeros(8, 16).index_copy_(0, row, x[:4]),
        lambda: torch.zeros(8, 16).index_fill_(0, row, 2.0),
        lambda: torch.zeros(8, 16).put_(row, torch.ones(4)),
        lambda: torch.zeros(8, 16).masked_scatter_(x > 0, x),
        lambda: torch.zeros(8, 16).scatter_reduce_(0, index, x, "amax"),
        lambda: f.max_unpool2d(*f.max_pool2d(image, 2, return_indices=True), 2),
        lambda: f.fold(f.unfold(image, 3, padding=1), (8, 8), 3, padding=1),
        lambda: torch.cdist(x, x),
        lambda: f.pixel_shuffle(image, 2),
        lambda: torch.kthvalue(x, 3, 1),
        lambda: torch.median(x, 1),
        lambda: torch.tril_indices(4, 4),
        lambda: torch.bucketize(x, torch.arange(4.0)),
        lambda: torch.segment_reduce(table, "max", lengths=torch.tensor([4, 6])),
        lambda: f.embedding_bag(row, table.clone(), torch.tensor([0, 2]), max_norm=1.0),
        lambda: torch._foreach_lerp_(lists[0], lists[1], 0.5),
        lambda: torch._fused_sgd_(
            [torch.ones(4)], [torch.ones(4)], [torch.zeros(4)], weight_decay=0.0, momentum=0.9,
            lr=1e-3, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
        ),
        lambda: nn.GRU(4, 5)(nn.utils.rnn.pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])),
        lambda: f.multi_margin_loss(x, torch.randint(0, 16, (8,))),
        lambda: lstm(torch.randn(3, 2, 4)),
        lambda: torch._fused_adam_(
            [torch.ones(4)], [torch.ones(4)], [torch.zeros(4)], [torch.zeros(4)], [],
            [torch.tensor(1.0)], lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8,
            amsgrad=False, maximize=False,
        ),
    ]  # fmt: skip


def recordings(folder: Path) -> None:
    """Each operator run and recorded by PyTorch's observer, a few to a file."""
    from torch.profiler import ExecutionTraceObserver

    calls = _calls()
    for first in range(0, len(calls), _TOGETHER):
        observer = ExecutionTraceObserver().register_callback(str(folder / f"et_{first}.json"))
        observer.start()
        for call in calls[first : first + _TOGETHER]:
            call()
        observer.stop()
        observer.unregister_callback()


def plans(folder: Path) -> None:
    """The same as exported plans."""
    place = folder.parent / "recordings"
    place.mkdir()
    recordings(place)
    for file in sorted(place.iterdir()):
        export(str(file), folder.parent / "exported" / file.stem, ReplayOptions())
        (plan,) = (folder.parent / "exported" / file.stem).glob("plan_*")
        plan.rename(folder / f"{file.stem}_{plan.name}")


def mutate_calls(rng: Random, data: bytes) -> bytes:
    """Sizes, strides, storages, types and operators of a recording that lie; sometimes anything at all."""
    if rng.random() < 0.25:
        return mutate_json(rng, data)
    said = json.loads(data)
    nodes = [n for n in said["nodes"] if n["inputs"]["values"]]
    for _ in range(rng.choice((1, 1, 2, 3))):
        node = rng.choice(nodes)
        way = rng.randrange(8)
        if way == 0:  # another operator is given these arguments
            other = rng.choice(nodes)
            node["name"], node["attrs"] = other["name"], other["attrs"]
        elif way == 1:
            side = rng.choice(("inputs", "outputs"))
            node[side] = rng.choice(nodes)[side]
        elif way < 5:
            _lie(rng, node[rng.choice(("inputs", "inputs", "outputs"))])
        else:
            _lie_plausibly(rng, node[rng.choice(("inputs", "inputs", "outputs"))], nodes)
    return json.dumps(said).encode("utf-8", "surrogatepass")


def _lie_plausibly(rng: Random, side: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    """A tensor of another shape, elsewhere in its storage or in another one, of which the numbers agree."""
    tensors = [i for i, v in enumerate(side["values"]) if _is_tensor(v)]
    if not tensors:
        return
    at = rng.choice(tensors)
    value, shape = side["values"][at], side["shapes"][at]
    way = rng.randrange(4)
    if way == 0:
        others = [v for n in nodes for v in n["inputs"]["values"] if _is_tensor(v)]
        value[1] = rng.choice(others)[1]
    elif way == 1:
        value[2] = rng.choice((1, 7, 1000, 1 << 20, 1 << 33))
    elif way == 2:
        side["strides"][at] = [rng.choice((0, 1, 2, 16, 1000)) for _ in shape]
    else:
        shape = [rng.choice((0, 1, 2, 3, 8, 16, 17, 100)) for _ in range(rng.randrange(5))]
        side["shapes"][at] = shape
        side["strides"][at] = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        value[3] = math.prod(shape)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)


def mutate_plan(rng: Random, data: bytes) -> bytes:
    """Sizes, slots and numbers of a plan that lie; sometimes anything at all."""
    if rng.random() < 0.4:
        return mutate_json(rng, data)
    said = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        numbers = [p for p in places([said]) if type(p[0][p[1]]) is int]
        holder, key = rng.choice(numbers)
        other, place = rng.choice(numbers)
        holder[key] = rng.choice(_SIZES) if rng.random() < 0.6 else other[place]
    return json.dumps(said).encode()


def _lie(rng: Random, side: dict[str, Any]) -> None:
    what = rng.choice(("values", "shapes", "strides", "values", "types"))
    if not side[what]:
        return
    at = rng.randrange(len(side[what]))
    value = side[what][at]
    if what == "types":
        side[what][at] = rng.choice(("Tensor(float)", "Tensor(long int)", "Int", "Double", value))
    elif isinstance(value, list) and value:
        inner = rng.randrange(len(value))
        value[inner] = rng.choice(_SIZES) if rng.random() < 0.8 else hostile(rng)
    else:
        side[what][at] = rng.choice(_SIZES) if rng.random() < 0.7 else hostile(rng)


def _changed(folder: Path) -> Path:
    return max(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)


def _replay_recording(folder: Path) -> None:
    plan = prepare(link([_changed(folder)])[0], ReplayOptions()).plans[0]
    _run(json.loads(msgspec.json.encode(plan)))


def _replay_plan(folder: Path) -> None:
    from chakrakit.replayer.runner.limits import ReplayError, read_plan

    try:
        plan = read_plan(_changed(folder))
    except ReplayError as error:
        raise ChakraError(str(error)) from None
    _run(plan)


def _run(plan: dict[str, Any]) -> None:
    from chakrakit.replayer.runner import measure
    from chakrakit.replayer.runner.limits import ReplayError

    gc.freeze()  # the runner looks for garbage before it times anything, and PyTorch is large
    limit_machine()
    try:
        measure.run_plan(plan, _SETTINGS, None)
    except ReplayError as error:
        raise ChakraError(str(error)) from None


def limit_machine() -> None:
    """Let replays in this process believe that the machine has little memory."""
    from chakrakit.replayer.runner import measure
    from chakrakit.replayer.runner.guard import MemoryBudget

    measure.memory_budget = lambda *_: MemoryBudget({"cpu": _MACHINE})


def _format(name: str, seed: Callable[[Path], None], mutate: Any, replay: Step) -> Format:
    return Format(name, seed, {"*": mutate}, replay)


REPLAYS = (
    [
        _format("replayed-recording", recordings, mutate_calls, _replay_recording),
        _format("replayed-plan", plans, gzipped(mutate_plan), _replay_plan),
    ]
    if find_spec("torch")
    else []
)
