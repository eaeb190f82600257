"""Times PyTorch's operators on a GPU, each with a cold and with a warm cache, for `chakra calibrate`.

`python benchmarks/operator_times.py operators.json` on a machine with a GPU, then
`chakra calibrate operators.json -o mine.json`. Every operator that a case calls, forward and backward, is
run after a write that fills the cache, and again right after itself; its time is that of its kernels in
Kineto. The profile `h200` was measured in this way, with many more shapes.
"""

from __future__ import annotations

import bisect
import itertools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import profiler
from torch.autograd.profiler import record_function
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

FLUSH_BYTES = 256 << 20
REPEATS = 3
_ABOUT = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


class Each(TorchDispatchMode):
    """Around every operator: a flushed cache before it, or the operator itself once before."""

    def __init__(self, cold: bool, flush: torch.Tensor) -> None:
        super().__init__()
        self.cold, self.flush = cold, flush

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.is_view:
            return func(*args, **(kwargs or {}))
        if self.cold:
            self.flush.zero_()
        else:
            func(*args, **(kwargs or {}))
        with record_function("COLD" if self.cold else "WARM"):
            return func(*args, **(kwargs or {}))


def both(function: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    """Forward and backward of a function of random tensors; gradients lie in memory as real ones do."""
    tensors = [
        torch.randn(s, device="cuda", dtype=torch.bfloat16, requires_grad=True) for s in shapes
    ]
    gradient = torch.randn_like(function(*tensors))
    return lambda: torch.autograd.grad(function(*tensors), tensors, gradient)


def cases() -> Iterator[Callable[[], Any]]:
    """What is timed; add what your programs call."""
    sizes = ((768, 768), (3072, 768), (2048, 8192), (4096, 4096))
    for m, (n, k) in itertools.product((1, 16, 128, 1024, 8192), sizes):
        yield both(functional.linear, (m, k), (n, k))
    for rows in ((8192, 768), (16384, 2048), (64, 4096)):
        yield both(functional.gelu, rows)
        yield both(partial(functional.softmax, dim=-1), rows)
        yield both(partial(functional.layer_norm, normalized_shape=rows[-1:]), rows)
    causal = partial(functional.scaled_dot_product_attention, is_causal=True)
    for batch, heads, length in ((8, 12, 1024), (4, 32, 2048)):
        yield both(causal, *[(batch, heads, length, 64)] * 3)


def main(output: str) -> int:
    """Writes the file."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    rows = [row for case in cases() for row in timed(case, flush)]
    Path(output).write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "rows": rows}))
    return 0


def timed(case: Callable[[], Any], flush: torch.Tensor) -> list[dict[str, Any]]:
    """One row per operator of the case: the medians of its cold and warm times."""
    case()
    with profiler.profile(record_shapes=True) as found:
        for cold in (True, False):
            for _ in range(REPEATS):
                with Each(cold, flush):
                    case()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kineto.json"
        found.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
    return rows_of(events)


def rows_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From Kineto's events: kernels by the operator that launched them, inside of the marked ranges."""
    calls = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    launched = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]
    }
    marks = sorted(
        (e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["name"] in ("COLD", "WARM")
    )
    took: dict[int, float] = defaultdict(float)
    mode: dict[int, str] = {}
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memset", "gpu_memcpy"):
            continue
        at = launched.get(event["args"].get("correlation"), -1.0)
        place = bisect.bisect_right(marks, (at, float("inf"), "")) - 1
        if place >= 0 and at <= marks[place][1]:
            took[event["args"]["External id"]] += event["dur"]
            mode[event["args"]["External id"]] = marks[place][2]
    return _medians({i: us for i, us in took.items() if i in calls}, mode, calls)


def _medians(
    took: dict[int, float], mode: dict[int, str], calls: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    times: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, us in took.items():
        about = json.dumps([calls[number]["args"].get(name) for name in _ABOUT])
        times[calls[number]["name"], about][mode[number]].append(us)
    return [
        _row(name, json.loads(about), {m: sorted(t)[len(t) // 2] for m, t in found.items()})
        for (name, about), found in times.items()
        if "COLD" in found
    ]


def _row(name: str, about: list[Any], us: dict[str, float]) -> dict[str, Any]:
    """In the texts of execution traces."""
    shapes, types, strides, values = (part or [] for part in about)
    plain = ("", "Scalar", "ScalarList", "TensorList")
    told = [t if t in plain else f"Tensor({t})" for t in types]
    texts = {
        "shapes": shapes,
        "types": told,
        "strides": strides,
        "values": [_plain(v) for v in values],
    }
    row = {key: json.dumps(part) for key, part in texts.items()}
    return {"op": name, "us": us["COLD"], "warm": us.get("WARM", us["COLD"])} | row


def _plain(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return "<None>"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
